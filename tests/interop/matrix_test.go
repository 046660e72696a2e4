package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatrix(t *testing.T) {
	m := NewMatrix([]string{"a", "b", "cannot be", "not said"}, []string{"one", "two", "three"})
	require.True(t, m.Empty())
	m.Except("a", "two", "a has no two")
	m.Except("b", "two", "a has no two")
	m.Remark("b", "three", "only some")
	for _, column := range []string{"one", "two", "three"} {
		m.Except("cannot be", column, "at all")
	}
	m.Except("not said", "one", "not printed")
	require.True(t, m.Empty())
	require.Equal(t, []string{"a: one", "a: three", "b: one", "b: three", "not said: two", "not said: three"}, m.Missing())

	m.Record("a", "one", true)
	m.Record("a", "three", true)
	m.Record("a", "three", false) // one failure is enough
	m.Record("b", "three", true)
	require.False(t, m.Empty())
	require.Equal(t, []string{"b: one", "not said: two", "not said: three"}, m.Missing())
	require.Equal(t, ""+
		"           one  two  three\n"+
		"a          ok   (1)  FAILED\n"+
		"b          -    (1)  ok (2)\n"+
		"cannot be  (3)  (3)  (3)\n"+
		"(1) a has no two\n"+
		"(2) only some\n"+
		"(3) at all\n", m.String())
	require.Panics(t, func() { m.Record("c", "one", true) })
}
