"""The schemas as the models have them. `python -m pretuned.schema.generate` writes the files that ship.

Draft 7, since that is what TOML editors know, and without references, which editors follow in different ways. TOML has
no null, so that a key which may be left out has the schema of its value alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import NullableSchema

from pretuned.config.project import ARCHITECTURE, ProjectTable
from pretuned.frontends.registry import front_ends
from pretuned.schema.descriptions import DESCRIPTIONS
from pretuned.spec.expressions import Expression
from pretuned.spec.model import PLACED, KernelSpec

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"

Json = dict[str, Any]


class _Generate(GenerateJsonSchema):
    def encode_default(self, dft: object) -> object:
        """Return a default as a spec would write it; that of a table is the defaults of its keys."""
        if isinstance(dft, Expression):
            return dft.python
        return {} if isinstance(dft, BaseModel) else super().encode_default(dft)

    def nullable_schema(self, schema: NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def spec_schema() -> Json:
    """Return the schema of a kernel spec."""
    found = _of(KernelSpec)
    for name in PLACED:
        del found["properties"][name]
    found["required"] = ["format", *(key for key in found["required"] if key not in PLACED)]
    choice = found["properties"]["specialisations"]["additionalProperties"]
    choice["additionalProperties"] = {"type": "string"}  # with `from`: the type by the other's type
    return {"$schema": _DRAFT, "title": "A kernel spec of pretuned", **found}


def project_schema() -> Json:
    """Return the schema of a pyproject.toml, of which it knows pretuned's tables only."""
    table = _of(ProjectTable)
    table["properties"]["architectures"]["items"]["pattern"] = f"^{ARCHITECTURE}$"
    table["anyOf"] = [{"required": ["module"]}, {"required": ["modules"]}]
    tools: Json = {}
    for front_end in front_ends():
        tools |= front_end.schema(table)["properties"]
    tool = {"type": "object", "properties": tools}
    title = "pretuned's tables in pyproject.toml"
    return {"$schema": _DRAFT, "title": title, "type": "object", "properties": {"tool": tool}}


def _of(model: type[BaseModel]) -> Json:
    """Return a model's schema, described, with what it refers to in place of the references."""
    found = model.model_json_schema(by_alias=True, schema_generator=_Generate)
    models = {**found.pop("$defs", {}), model.__name__: found}
    for name, schema in models.items():
        schema.pop("description", None)  # the model's docstring, which is not for authors of specs
        for key in schema["properties"]:
            if not (name == KernelSpec.__name__ and key in PLACED):
                schema["properties"][key]["description"] = DESCRIPTIONS[f"{name}.{key}"]
    whole: Json = _inlined(found, models)
    return whole


def _inlined(schema: Any, models: Mapping[str, Json]) -> Any:  # noqa: ANN401 - JSON
    match schema:
        case {"$ref": str(reference), **others}:
            return _inlined({**models[reference.rpartition("/")[2]], **others}, models)
        case dict():
            kept = {key: value for key, value in schema.items() if not _dropped(key, value)}
            return {key: _inlined(value, models) for key, value in kept.items()}
        case list():
            return [_inlined(value, models) for value in schema]
    return schema


def _dropped(key: str, value: object) -> bool:
    """Whether an entry says nothing to an editor: pydantic's titles, and that what is left out is null."""
    return (key == "title" and isinstance(value, str)) or (key == "default" and value in (None, [], {}, ""))


SCHEMAS: Final[Mapping[str, Callable[[], Json]]] = {"spec": spec_schema, "project": project_schema}


def text_of(name: str) -> str:
    """Return the text of a schema as its file has it."""
    return json.dumps(SCHEMAS[name](), indent=2) + "\n"


if __name__ == "__main__":
    for each in SCHEMAS:
        Path(__file__).with_name(f"{each}.schema.json").write_text(text_of(each), encoding="utf-8", newline="\n")
