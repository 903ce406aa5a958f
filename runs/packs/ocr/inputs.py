"""The inputs of an ocr run: the tenant's own uploads, by their keys."""

import os
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from dpp_project.aws import prefixes
from runs.packs.ocr.profiles import ProfileName
from runs.packs.shared.tagged_union import wrong_field

PAGES_MAX: Final = 50
LANGUAGE: Final = "kor+eng"
BUCKET_VARIABLE: Final = "DPP_BUCKET"
BUCKET_DEFAULT: Final = "dpp-results"
ONE_PAGE: Final = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp"})


def _own_bucket(name: str | None) -> str | None:
    """Uploads lie in one bucket; another one would be read with our rights instead of the caller's."""
    if name is not None and name != os.environ.get(BUCKET_VARIABLE, BUCKET_DEFAULT):
        raise PydanticCustomError("bucket", "is not the bucket of your uploads; leave it out")
    return name


def _upload(key: str) -> str:
    parts = key.split("/")
    is_plain = key.isprintable() and {"", ".", ".."}.isdisjoint(parts)
    if f"{parts[0]}/" != prefixes.UPLOADS or len(parts) < 3 or not is_plain:
        raise PydanticCustomError("key", "is not the key of an upload; POST /v1/uploads answers one")
    return key


def _language(spoken: Any) -> Any:
    if spoken != LANGUAGE:
        said = f"is always {LANGUAGE}: both are read, word by word"
        raise PydanticCustomError("language", "{said}", {"said": said})
    return spoken


class Source(BaseModel):
    """A picture, or a document of several pages."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["s3"] = "s3"
    bucket: Annotated[
        Annotated[str, Field(max_length=63)] | None,
        AfterValidator(_own_bucket),
        Field(description="The bucket of your uploads."),
    ] = None
    key: Annotated[
        str,
        Field(min_length=1, max_length=512, description="As POST /v1/uploads answered it: uploads/…"),
        AfterValidator(_upload),
    ]

    @property
    def name(self) -> str:
        """The file name the tenant gave."""
        return PurePosixPath(self.key).name

    @property
    def extension(self) -> str:
        return PurePosixPath(self.key).suffix.lower()


class OcrInputs(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    images: Annotated[
        list[Source],
        Field(min_length=1, max_length=PAGES_MAX, description="PNG, JPEG, WebP, BMP, TIFF or PDF, in this order."),
    ]
    ocr_profile: Annotated[
        ProfileName, Field(description="P1 fastest, P2A documents, P2B photographs, P3 everything.")
    ] = "P2A"
    language: Annotated[
        str, BeforeValidator(_language), Field(json_schema_extra={"const": LANGUAGE}, description="May be said only.")
    ] = LANGUAGE
    max_pages: Annotated[int, Field(ge=1, le=PAGES_MAX, description="Of all files together; the rest is noted.")] = (
        PAGES_MAX
    )

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        keys = [image.key for image in self.images]
        again = [place for place, key in enumerate(keys) if key in keys[:place]]
        if again:
            twice = [
                wrong_field(("images", place, "key"), "names a file a second time; name it once") for place in again
            ]
            raise ValidationError.from_exception_data(type(self).__name__, twice)
        return self

    def page_range(self) -> tuple[int, int]:
        """How many pages these files have at least and at most: a picture has one, a document any number."""
        least = min(len(self.images), self.max_pages)
        is_each_single = all(image.extension in ONE_PAGE for image in self.images)
        return least, least if is_each_single else self.max_pages
