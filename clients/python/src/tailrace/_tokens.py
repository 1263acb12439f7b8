"""Session tokens, which the backend of an application signs for its users."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass
from typing import Any, Iterable, Mapping


@dataclass(frozen=True)
class MintedToken:
    """A token that an edge has signed."""

    token: str
    expires_at: str
    token_id: str


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _names(value: str | Iterable[str]) -> str | list[str]:
    return value if isinstance(value, str) else list(value)


def mint_session_token(
    *,
    key: bytes | Mapping[str, Any],
    issuer: str,
    audience: str,
    tenant: str,
    subject: str,
    scopes: Iterable[str],
    sessions: str | Iterable[str] | None = None,
    view: str | Iterable[str] | None = None,
    key_id: str | None = None,
    lifetime: int = 900,
    now: int | None = None,
) -> str:
    """Signs a session token. The holder of the key can act as any user.

    The key is a shared secret of at least 32 bytes (HS256), or the private JWK of Ed25519, which needs key_id and `tailrace[tokens]`. Without sessions the token is for
    those that the user has started, and without a view it has the default view of the edge.
    """
    if isinstance(scopes, str):
        raise TypeError('scopes: want a list, such as ["read", "chat"]')
    header: dict[str, Any] = {"alg": "HS256" if isinstance(key, bytes) else "EdDSA", "typ": "at+jwt"}
    if key_id is not None:
        header["kid"] = key_id
    elif not isinstance(key, bytes):
        raise ValueError("key_id: want the id under which the edge has the public key")
    at = int(time.time()) if now is None else now
    claims: dict[str, Any] = {"iss": issuer, "aud": audience, "sub": subject, "tid": tenant, "scope": " ".join(scopes)}
    if sessions is not None:
        claims["sid"] = _names(sessions)
    if view is not None:
        claims["view"] = _names(view)
    claims.update(iat=at, exp=at + lifetime, jti=str(uuid.uuid4()))
    signed = ".".join(_encode(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
    return f"{signed}.{_encode(_sign(key, signed.encode('ascii')))}"


def _sign(key: bytes | Mapping[str, Any], text: bytes) -> bytes:
    if isinstance(key, bytes):
        if len(key) < 32:
            raise ValueError("key: the secret is too short, want at least 32 bytes")
        return hmac.new(key, text, hashlib.sha256).digest()
    if key.get("kty") != "OKP" or key.get("crv") != "Ed25519" or not isinstance(key.get("d"), str):
        raise ValueError("key: want the private JWK of an Ed25519 key")
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise ImportError("keys of Ed25519 need the package cryptography: pip install 'tailrace[tokens]'") from error
    secret: str = key["d"]
    return Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))).sign(text)


def minting(subject: str, scopes: Iterable[str], sessions: str | Iterable[str] | None, view: str | Iterable[str] | None, minutes: int | None) -> bytes:
    """Returns the body of a request to mint a token."""
    if isinstance(scopes, str):
        raise TypeError('scopes: want a list, such as ["read", "chat"]')
    body: dict[str, Any] = {"subject": subject, "scopes": " ".join(scopes)}
    if sessions is not None:
        body["sessions"] = _names(sessions)
    if view is not None:
        body["view"] = _names(view)
    if minutes is not None:
        body["minutes"] = minutes
    return json.dumps(body).encode()


def minted(body: Mapping[str, Any]) -> MintedToken:
    return MintedToken(body["token"], body["expiresAt"], body["tokenId"])
