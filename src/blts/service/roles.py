"""Who may do what: five roles, and the permissions that each has."""

from __future__ import annotations

import enum


class Role(enum.StrEnum):
    """The role of an API key."""

    client = "client"
    """A browser or a phone, where anybody can read the key: evaluates flags, and tells rewards of signed decisions."""
    app = "app"
    """A server of yours: asks for decisions and tells rewards."""
    reader = "reader"
    """A person who looks."""
    operator = "operator"
    """A person who runs experiments: refreshes, pauses, changes arms, corrects."""
    admin = "admin"
    """Everything: also creates and stops experiments, and makes keys."""


class Permission(enum.StrEnum):
    """What a route needs."""

    evaluate = "evaluate"
    decide = "decide"
    look = "look"
    operate = "operate"
    administer = "administer"


_ROLES_WITH: dict[Permission, frozenset[Role]] = {
    Permission.evaluate: frozenset({Role.client, Role.app, Role.admin}),
    Permission.decide: frozenset({Role.app, Role.admin}),
    Permission.look: frozenset({Role.reader, Role.operator, Role.admin}),
    Permission.operate: frozenset({Role.operator, Role.admin}),
    Permission.administer: frozenset({Role.admin}),
}


def may(role: Role, permission: Permission) -> bool:
    """Whether a role has a permission."""
    return role in _ROLES_WITH[permission]


def roles_with(permission: Permission) -> list[Role]:
    """The roles that have a permission, weakest first."""
    return [role for role in Role if role in _ROLES_WITH[permission]]
