"""The base of what operator and job master send each other."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Wire(BaseModel):
    """camelCase on the wire; a field that is not known is passed over, for the other side may be newer."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, extra="ignore", strict=True, frozen=True, allow_inf_nan=False
    )
