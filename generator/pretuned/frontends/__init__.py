"""Front ends: what calls a build, Hatch and setuptools, with what each knows of a project's files.

`registry` has the protocol, the registry and `load_project`. A front end is one object (`hatch`, `setuptools`); what
plugs into the build tool stands beside it (`hatch_hook`; `setuptools_entry` and `setuptools_command`), since it can be
imported only where that tool is installed.
"""
