package owner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The lease of a grant has begun at the earliest when the last call was sent that has found the request waiting.
func TestAMessageIsBelievedSinceTheRequestWasLastFoundWaiting(t *testing.T) {
	const sent, trusted = time.Second, 9 * time.Second
	for name, tt := range map[string]struct {
		request Request
		wire    string
		now     time.Duration
		want    bool
	}{
		"in time":             {Request{Wire: "s:1", Stands: true, Stood: sent}, "s:1", sent + trusted - 1, true},
		"too late":            {Request{Wire: "s:1", Stands: true, Stood: sent}, "s:1", sent + trusted, false},
		"another's":           {Request{Wire: "s:2", Stands: true, Stood: sent}, "s:1", sent, false},
		"never found waiting": {Request{Wire: "s:1", Copies: trusted}, "s:1", sent, false},
		"nothing was asked":   {Request{}, "", sent, false},
	} {
		t.Run(name, func(t *testing.T) {
			until, ok := tt.request.Told(tt.wire, trusted, tt.now)
			assert.Equal(t, tt.want, ok)
			if ok {
				assert.Equal(t, sent+trusted, until)
			}
		})
	}
}

func TestAWaiterIsGivenBackAndAMisplacedOneOnlyIfCopiesMayCome(t *testing.T) {
	const sent, notAfter = time.Second, 2 * time.Second
	var c testClaim
	r := Request{Wire: "s:1"}
	r.Waits(sent, 3)
	assert.Equal(t, Request{Wire: "s:1", Stands: true, Stood: sent, Signs: 3}, r)
	undo := c.GiveUp(&r, sent, time.Minute)
	assert.Equal(t, "s:1", undo.Wire)
	assert.Zero(t, r)

	r = Request{Wire: "s:2", Stands: true, Copies: notAfter}
	r.Misplaced(notAfter)
	undo = c.GiveUp(&r, notAfter, time.Minute)
	assert.Zero(t, undo)

	r = Request{Wire: "s:3", Stands: true, Copies: notAfter}
	r.Misplaced(sent)
	undo = c.GiveUp(&r, sent, time.Minute)
	assert.Equal(t, "s:3", undo.Wire)
}
