"""Exit codes are part of the command line: scripts and CI compare them."""

from pretuned.errors import BakeError, ConfigError, DeviceError, ExitCode, LockError, SpecError, UsageError
from pretuned.exchange.files import FormatError
from pretuned.measure.runner import TuningError


def test_exit_codes_keep_their_numbers():
    assert {code.name: int(code) for code in ExitCode} == {
        "SUCCESS": 0,
        "FAILURE": 1,
        "INPUT": 2,
        "CONFIGURATION": 3,
        "LOCK": 4,
        "DEVICE": 5,
        "BAKE": 6,
        "TUNING": 7,
        "FOUND": 8,
        "DRIFTED": 9,
        "STORAGE": 10,
        "INTERRUPTED": 130,
        "UNREAD": 141,
    }
    assert all(code.meaning and "|" not in code.meaning for code in ExitCode)


def test_each_error_has_its_exit_code():
    codes = [each.exit_code for each in (SpecError, ConfigError, LockError, DeviceError, BakeError, TuningError)]
    assert codes == [2, 3, 4, 5, 6, 7]
    assert UsageError.exit_code == FormatError.exit_code == ExitCode.INPUT
