package interop_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// gone is the content of a counter that is not there.
const gone = "gone"

// A step is what is asked of a semaphore or a latch, and what that leaves in Redis.
type step struct {
	what string
	do   func() bool // what is asked; whether that is so
	left string      // the counter
	said string      // the message; "": none
}

// steps are what two users do with a semaphore or a latch, one after another.
type steps struct {
	channel string
	beside  func() map[string]redistest.Value      // the keys beside the counter; nil: none
	count   func(t *testing.T, n int, what string) // wants both users to count so many
	all     []step
}

// requireStates wants the states that something goes through in Redis, and the messages, to be the same whichever
// languages use it, and both to count alike in each of them.
func requireStates(
	t *testing.T, s *site, k kind, write func(t *testing.T, f *fleet, name string, first, second language) steps,
) {
	t.Helper()
	for _, first := range languages {
		for _, second := range languages {
			t.Run(first.name+" and "+second.name, func(t *testing.T) {
				f := s.fleet(fleetOptions{})
				f.proves(t, readings, k.name, first)
				f.proves(t, inspection, k.name, first)
				name := unique("x")
				steps := write(t, f, name, first, second)
				messages := f.messages(t, steps.channel)
				for _, step := range steps.all {
					require.True(t, step.do(), step.what)
					want := map[string]redistest.Value{}
					if steps.beside != nil {
						want = steps.beside()
					}
					if step.left != gone {
						want[name] = redistest.Value{Type: "string", Content: step.left}
					}
					require.Equal(t, want, f.state(t, name), step.what)
					var said []redistest.Message
					if step.said != "" {
						said = []redistest.Message{{Channel: steps.channel, Payload: step.said}}
					}
					require.ElementsMatch(t, said, messages.Drain(t), step.what)
					n, _ := strconv.Atoi(step.left)
					steps.count(t, n, step.what)
				}
			})
		}
	}
}
