"""API keys. A key that is for some experiments makes, sees and revokes keys for those alone."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UnknownName
from ..answers import Key, Keys, MadeKey
from ..bodies import Listing, NewKey
from ..dispatch import Call, Reply, Route
from ..keys import Key as StoredKey
from ..paging import paged
from ..problems import Kind, Problem
from ..roles import Permission


def _is_within(own: StoredKey, experiments: Sequence[str] | None) -> bool:
    """Whether a key for some experiments (None for all) is for none that another key is not for."""
    return own.experiments is None or (experiments is not None and set(experiments) <= set(own.experiments))


async def listed(call: Call) -> Keys:
    """The keys there have been, without their secrets."""
    every = await call.service.run(call.service.keys.all)
    some, following = paged([key for key in every if _is_within(call.key, key.experiments)], lambda key: key.id, call.query)
    return Keys([Key.of(key) for key in some], following)


async def create(call: Call) -> Reply:
    """Make a key. The answer has its secret, which is not stored. The same request with the same Idempotency-Key is the same
    key."""
    body: NewKey = call.body
    if not _is_within(call.key, body.experiments):
        raise Problem(Kind.forbidden, "This key is for some experiments; name those of them that the new key is for.")
    key, secret = await call.service.run(
        call.service.keys.create,
        body.name,
        body.role,
        experiments=body.experiments,
        origins=body.origins,
        rate=body.rate,
        expires_at=body.expires_at,
        request_id=call.request_id,
        by=call.key.actor,
    )
    return Reply(MadeKey(Key.of(key), secret), 201)


async def revoke(call: Call) -> Key:
    """End a key, for good."""
    unknown = Problem(Kind.not_found, "There is no such key for this key.")
    keys, wanted = call.service.keys, call.path("key")
    try:
        found = await call.service.run(keys.find, wanted)
    except UnknownName:
        raise unknown from None
    if not _is_within(call.key, found.experiments):
        raise unknown
    return Key.of(await call.service.run(keys.revoke, wanted, call.key.actor))


ADMINISTER, AGAIN = Permission.administer, (Kind.conflict,)
ROUTES = (
    Route("GET", "/v1/keys", ADMINISTER, listed, "List keys", Keys, query=Listing),
    Route("POST", "/v1/keys", ADMINISTER, create, "Make a key", MadeKey, NewKey, status=201, headers=("Idempotency-Key",)),
    Route("POST", "/v1/keys/{key}/revoke", ADMINISTER, revoke, "Revoke a key", Key, problems=AGAIN),
)
