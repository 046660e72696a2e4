package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScreen(t *testing.T) {
	var out strings.Builder
	s := &Screen{Out: &out, Live: true}
	s.Progress("half")
	s.Say(s.Color(Red, "done"))
	require.Equal(t, startOver+"half"+startOver+"done\n", out.String())

	out.Reset()
	s = &Screen{Out: &out}
	s.Say("done")
	s.Clear()
	require.Equal(t, "done\n", out.String())
}
