"""What a generated module assigns, read off its text."""

import ast


def assigned(tree, name):
    """Return the expression that a module's tree assigns to `name`."""
    (value,) = (
        node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    )
    return value
