"""The test library: brokers to start, sessions to ask, requests, load, the wire by hand."""
