"""What a build or a command reports, kept as the lines that a user sees."""

from pretuned.diagnostics import Reporter


class Reported(list, Reporter):
    def report(self, diagnostic, /):
        self.append(str(diagnostic))
