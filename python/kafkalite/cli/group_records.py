"""What records of ``__consumer_offsets`` say, in a line for people."""

from __future__ import annotations

from typing import Any


def words(told: dict[str, Any]) -> str:
    """Return what ``log_files.group_record`` told as a line."""
    match told["kind"]:
        case "offset":
            return _offset(told)
        case "group":
            return _group(told)
        case "foreign":
            return "of another group protocol"
    return f"UNREADABLE: {told['problem']}"


def _offset(told: dict[str, Any]) -> str:
    place = f"offset of {told['group']} for {told['topic']}-{told['partition']}"
    if told["removed"]:
        return f"{place}: removed"
    more = [f"epoch {told['leader_epoch']}"] if told["leader_epoch"] is not None else []
    more += [f"metadata {told['metadata']!r}"] if told["metadata"] else []
    return f"{place}: {told['offset']}" + "".join(f"  {word}" for word in more)


def _group(told: dict[str, Any]) -> str:
    name = f"group {told['group']}"
    if told["removed"]:
        return f"{name}: removed"
    what = f"{name}: generation {told['generation']}  {told['protocol_type'] or 'no protocol'}"
    if told["protocol"]:
        what += f" by {told['protocol']}"
    members = "".join(f"\n      {_member(member, told['leader'])}" for member in told["members"])
    return what + (members or "  no members")


def _member(member: dict[str, Any], leader: str | None) -> str:
    who = member["member_id"] + (" (leads)" if member["member_id"] == leader else "")
    if member["group_instance_id"]:
        who += f" instance {member['group_instance_id']}"
    topics, assignment = member["topics"], member["assignment"]
    reads = "something" if topics is None else ", ".join(topics)
    has = "" if assignment is None else ", ".join(f"{of}-{number}" for of, number in assignment)
    return (
        f"{who}  {member['client_id']} at {member['host']}  reads {reads}  has {has or 'nothing'}"
    )
