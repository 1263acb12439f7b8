"""Signs session tokens and writes one a line. The argument is JSON, as that of mint.mjs."""

import base64
import json
import sys

from tailrace import mint_session_token

options = json.loads(sys.argv[1])
secret = options.pop("secret", None)
key = options.pop("key", None) if secret is None else base64.b64decode(secret)
print(json.dumps({"type": "token", "id": mint_session_token(key=key, key_id=options.pop("keyId", None), **options)}), flush=True)
