package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimely(t *testing.T) {
	const lease = 2 * time.Second
	for after, want := range map[time.Duration]string{
		lease / 3:                            "what a dead reader held came back after 666 ms, too early for a lease of 2.00 s",
		lease * 2 / 3:                        "",
		lease + 100*time.Millisecond:         "",
		lease + allowance + time.Millisecond: "what a dead reader held came back after 3.00 s, which should be 2.00 s at most",
	} {
		err := timely("reader", after, lease)
		if want == "" {
			require.NoError(t, err, after)
		} else {
			require.EqualError(t, err, want)
		}
	}
}
