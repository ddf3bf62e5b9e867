//go:build tools

// Package tools names what is compiled here: sarama's functional tests, and the proxy in which
// they cut connections.
package tools

import (
	_ "github.com/IBM/sarama"
	_ "github.com/Shopify/toxiproxy/v2"
)
