package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRangesAreRead(t *testing.T) {
	master, replica := []any{"10.0.0.1", int64(6379), "m"}, []any{"", int64(6380), "r", []any{"hostname", "b"}}
	nowhere := []any{"?", int64(6379), "n"}
	of := func(nodes ...Node) Range { return Range{First: 5461, Last: 16383, Nodes: nodes} }
	first, last := any(int64(5461)), any(int64(16383))
	for name, c := range map[string]struct {
		entry any
		want  Range
		ok    bool
	}{
		"a master": {[]any{first, last, master}, of(Node{"10.0.0.1:6379", "m"}), true},
		"a host that was not told": {
			[]any{first, last, master, replica}, of(Node{"10.0.0.1:6379", "m"}, Node{"[::1]:6380", "r"}), true,
		},
		"a host that is not known yet": {[]any{first, last, nowhere}, of(Node{"", "n"}), true},
		"without a node":               {[]any{first, last}, Range{}, false},
		"with a nameless node":         {[]any{first, last, master[:2]}, of(), false},
		"not a number": {
			[]any{first, "all", master}, Range{First: 5461, Nodes: []Node{{"10.0.0.1:6379", "m"}}}, false,
		},
		"no range": {"OK", Range{}, false},
	} {
		got, ok := read(c.entry, "[::1]:7000")
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.ok, ok, name)
	}
}
