package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScreenDrawsInPlace(t *testing.T) {
	var out strings.Builder
	s := &screen{out: &out, live: true}
	wrote := func() string {
		defer out.Reset()
		return out.String()
	}
	s.say("one")
	require.Equal(t, "one\n", wrote())
	s.draw([]string{"a", "b"})
	require.Equal(t, cut+"a"+eraseRight+"\nb"+eraseRight+"\n"+wrap, wrote())
	s.say("two")
	require.Equal(t, "\x1b[2Ftwo"+eraseRight+"\n"+cut+"a"+eraseRight+"\nb"+eraseRight+"\n"+wrap+eraseBelow, wrote())
	s.close()
	require.Equal(t, "\x1b[2F"+eraseBelow+showCursor, wrote())
}

func TestScreenIsPlainElsewhere(t *testing.T) {
	var out strings.Builder
	s := &screen{out: &out}
	s.say(s.red("one"))
	s.draw([]string{"a"})
	s.close()
	require.Equal(t, "one\n", out.String())
}
