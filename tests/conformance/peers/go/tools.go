//go:build tools

// Package peers keeps franz-go's test package among the module's requirements.
package peers

import _ "github.com/twmb/franz-go/pkg/kgo"
