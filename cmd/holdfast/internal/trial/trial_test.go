package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fleet"
	"github.com/holdfast-go/holdfast/internal/drill"
)

// A hold of which a process tells late, because its release had to wait for an answer, says nothing of this moment.
func TestALockThatWasTakenLongAgoIsIdle(t *testing.T) {
	const all = 3
	heard, began := make(chan fleet.Heard[drill.Event], all), fleet.Uptime()
	tr := trial{
		setup: setup{Locks: make([]drill.Lock, all)}, asJSON: true,
		fleet: &fleet.Fleet[drill.Event]{Heard: heard}, latest: make([]time.Duration, all),
	}
	require.Equal(t, all, tr.idle(0), "never taken")
	for _, b := range []drill.Belief{
		{Lock: 0, From: began - time.Minute},
		{Lock: 1, From: began},
		{Lock: 1, From: began - time.Minute}, // of another process, which tells late
	} {
		heard <- fleet.Heard[drill.Event]{Said: drill.Event{Belief: &b}}
	}
	require.NoError(t, tr.hear(t.Context(), time.Minute, func() bool { return len(heard) == 0 }))
	require.Equal(t, 1, tr.idle(0))
	require.Equal(t, 2, tr.idle(30*time.Second))
}
