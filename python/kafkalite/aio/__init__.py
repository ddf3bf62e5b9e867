"""The asyncio twins: same names, same arguments, ``await`` before each call."""
