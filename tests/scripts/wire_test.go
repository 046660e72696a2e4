package scripts

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A real server must agree on the slot of every kind of name, most of all of odd-looking ones.
func TestASlotIsWhatTheServerSays(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--cluster-enabled", "yes")
	letters := []rune("{}}{ab:ä\x00\n")
	for range 1000 {
		name := make([]rune, 1+rand.IntN(10))
		for i := range name {
			name[i] = letters[rand.IntN(len(letters))]
		}
		key := string(name)
		require.EqualValues(t, srv.Int(t, "CLUSTER", "KEYSLOT", key), wire.Slot(key), "%q", key)
		if wire.CheckSlot(key, wire.LockChannel(key)) == nil {
			for _, other := range []string{wire.LockChannel(key), wire.TokenKey(key), wire.Suffix(key, "x")} {
				require.EqualValues(t, srv.Int(t, "CLUSTER", "KEYSLOT", other), wire.Slot(key), "%q of %q", other, key)
			}
		}
	}
}
