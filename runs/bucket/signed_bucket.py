"""A bucket as our own signatures name it: where it is asked for, and by which path each key.

A boto3 client says so once, of any key, for the address depends on region, endpoint and the bucket's name alone.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlsplit

from dpp_project.aws.signing import Signer

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_UNCHANGED: Final = "/-_.~"
_ANY_KEY: Final = "any"


@dataclass(frozen=True, slots=True)
class SignedBucket:
    """Threads share it."""

    origin: str
    folder: str
    signer: Signer

    @classmethod
    def of(cls, client: "S3Client", bucket: str) -> Self:
        address = urlsplit(client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": _ANY_KEY}))
        origin = f"{address.scheme}://{address.netloc}"
        signer = Signer(origin, service="s3", region=client.meta.region_name)
        return cls(origin, address.path.removesuffix(_ANY_KEY), signer)

    def path_of(self, key: str) -> str:
        return self.folder + quote(key, safe=_UNCHANGED)

    def address_to_get(self, key: str, credentials: Any, *, seconds: int) -> str:
        path = self.path_of(key)
        return f"{self.origin}{path}?{self.signer.presigned(credentials, path, seconds=seconds)}"
