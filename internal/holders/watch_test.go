package holders

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A look is what it found, when, and whether a release was heard of since the one before it.
type look struct {
	at       time.Duration
	until    time.Duration // it took; at, if it is less
	held     bool
	left     time.Duration
	released bool
}

func TestWhatLooksFindOfALock(t *testing.T) {
	t.Parallel()
	const s = time.Second
	taken := func(at, left time.Duration) look { return look{at: at, held: true, left: left} }
	free := func(at time.Duration) look { return look{at: at} }
	released := func(at time.Duration) look { return look{at: at, released: true} }
	for name, c := range map[string]struct {
		looks []look
		want  State
	}{
		"free at first":                {[]look{free(0)}, IsFree},
		"held":                         {[]look{free(0), taken(5*s, 30*s)}, IsHeld},
		"released":                     {[]look{taken(0, 30*s), released(s)}, IsFree},
		"released, and nobody said so": {[]look{taken(0, 30*s), free(s)}, IsFree},
		"its lease is over":            {[]look{taken(0, 30*s), free(30 * s)}, HasExpired},
		"its lease is over, after a look of 10 s": {[]look{
			{at: 0, until: 10 * s, held: true, left: 30 * s}, free(30 * s),
		}, HasExpired},
		"it was renewed, and given back":   {[]look{taken(0, 2*s), taken(s, 30*s), free(5 * s)}, IsFree},
		"released in the end of its lease": {[]look{taken(0, 2*s), released(2 * s)}, IsFree},
		"it had no end":                    {[]look{taken(0, -1), free(time.Hour)}, IsFree},
		"still so":                         {[]look{taken(0, s), free(s), free(6 * s)}, HasExpired},
		"heard of later":                   {[]look{taken(0, s), free(s), released(2 * s)}, IsFree},
		"of an earlier release":            {[]look{released(0), taken(s, s), free(2 * s)}, HasExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &watcher{told: untold}
			for _, l := range c.looks {
				w.released = w.released || l.released
				w.told = w.found(l.held, l.left, l.at, max(l.at, l.until))
			}
			assert.Equal(t, c.want, w.told)
		})
	}
}
