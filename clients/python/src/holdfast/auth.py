"""Says who the caller is. An `Auth` gets method, URL, headers and body, and returns the headers to add."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

Auth = Callable[[str, str, Mapping[str, str], bytes | None], Mapping[str, str]]


def bearer(token: str | Callable[[], str]) -> Auth:
    """A bearer token, or a function that gives one. For a JWT authorizer, or a local service with HOLDFAST_TOKEN."""

    def authorize(_method: str, _url: str, _headers: Mapping[str, str], _body: bytes | None) -> Mapping[str, str]:
        return {"authorization": f"Bearer {token() if callable(token) else token}"}

    return authorize


def sigv4(*, region: str | None = None, session: Any = None, service: str = "execute-api") -> Auth:
    """Signs requests with AWS Signature Version 4. Needs botocore, which every Lambda runtime has.

    Credentials come from botocore's default chain, or from the session that is given.
    """
    try:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.session import get_session
    except ImportError as error:
        raise ImportError("sigv4() needs botocore: pip install 'holdfast-locks[aws]'.") from error
    botocore = session or get_session()
    credentials = botocore.get_credentials()
    if credentials is None:
        raise RuntimeError("There are no AWS credentials: botocore found none in its default chain.")

    def authorize(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Mapping[str, str]:
        signed_region = region or _region_of(url) or botocore.get_config_variable("region")
        if signed_region is None:
            raise RuntimeError("sigv4() needs a region: pass one, or set AWS_REGION.")
        request = AWSRequest(method=method, url=url, data=body or b"", headers=dict(headers))
        # Credentials are frozen for one signature, because they may be replaced at any time.
        SigV4Auth(credentials.get_frozen_credentials(), service, signed_region).add_auth(request)
        return dict(request.headers.items())

    return authorize


def _region_of(url: str) -> str | None:
    found = re.search(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.com", url)
    return found[1] if found else os.environ.get("AWS_REGION")
