import json, os, time, uuid
from joserfc import jwt
from joserfc.jwk import OKPKey

key = OKPKey.import_key(json.loads(os.environ["SIGNING_KEY"]))

def session_token(user, session):
    now = int(time.time())
    return jwt.encode(
        {"alg": "EdDSA", "kid": "2026-11", "typ": "at+jwt"},
        {"iss": "https://app.example", "aud": "tailrace", "sub": user, "tid": "acme", "sid": session,
         "scope": "read chat", "jti": str(uuid.uuid4()), "iat": now, "exp": now + 15 * 60},
        key, algorithms=["EdDSA"])
