package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for text, want := range map[string]string{
		"":                          "",
		"one\ntwo":                  "one\ntwo",
		"one\n\n  two   spaces\nto": "one\n\n  two   spaces\nto",
		strings.TrimSpace(long):     strings.Repeat("word ", 15) + "word\nword word word word",
	} {
		require.Equal(t, want, wrap(text))
	}
}
