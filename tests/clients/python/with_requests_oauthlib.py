"""requests-oauthlib: oauthlib's client for programs without a user, on a session of requests."""

import walk
from oauthlib.oauth2 import BackendApplicationClient, OAuth2Error
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

session = walk.prepare(OAuth2Session(client=BackendApplicationClient(walk.CLIENT_ID, scope=walk.SCOPE)))


def fetch_token():
    if walk.FORM == "basic":
        return session.fetch_token(walk.TOKEN_URL, auth=HTTPBasicAuth(walk.CLIENT_ID, walk.CLIENT_SECRET))
    return session.fetch_token(walk.TOKEN_URL, client_secret=walk.CLIENT_SECRET, include_client_id=True)


walk.Walk(session, fetch_token, OAuth2Error, lambda error: error.error).run()
