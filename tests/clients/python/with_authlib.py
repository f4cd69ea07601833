"""authlib: a session of requests that gets its token itself."""

import walk
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session

METHODS = {"basic": "client_secret_basic", "form": "client_secret_post"}

session = walk.prepare(
    OAuth2Session(
        walk.CLIENT_ID,
        walk.CLIENT_SECRET,
        scope=walk.SCOPE,
        token_endpoint_auth_method=METHODS[walk.FORM],
    )
)


def fetch_token():
    return session.fetch_token(walk.TOKEN_URL, grant_type="client_credentials")


walk.Walk(session, fetch_token, OAuthError, lambda error: error.error).run()
