"""What tests measure and do not judge, shown at the end: `record_property("figure", text)`, in whichever process."""


def pytest_terminal_summary(terminalreporter):
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    told = [text for report in reports for name, text in getattr(report, "user_properties", ()) if name == "figure"]
    figures = list(dict.fromkeys(told))  # set-up, call and tear-down each report them
    if figures:
        terminalreporter.section("figures")
        terminalreporter.write_line("\n".join(figures))
