package several

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/session"
)

// anywhere is no session.
func anywhere(int) *session.Session { return nil }

// Three of five servers are needed. Each answers after that many seconds, or not during the test.
func TestWhenAQuorumNeedNotWaitForTheRest(t *testing.T) {
	type answer struct {
		after int
		err   error
	}
	last, all := []bool{4: true}, []bool{true, true, true, true, true}
	never, busy, away := 3600, session.ErrBusy, errors.New("away")
	const limit, past = 12 * time.Second, 13
	for name, c := range map[string]struct {
		answers [5]answer
		mute    []bool
		over    int
	}{
		"all have answered":             {[5]answer{{1, nil}, {1, busy}, {2, nil}, {3, away}, {4, busy}}, nil, 4},
		"most have granted it":          {[5]answer{{1, nil}, {1, nil}, {2, nil}, {never, nil}, {never, nil}}, nil, 4},
		"and the rest comes soon":       {[5]answer{{1, nil}, {1, nil}, {2, nil}, {3, nil}, {3, nil}}, nil, 3},
		"most are busy":                 {[5]answer{{1, busy}, {1, busy}, {3, busy}, {never, nil}, {never, nil}}, nil, 6},
		"neither":                       {[5]answer{{1, nil}, {1, busy}, {1, nil}, {1, busy}, {past, nil}}, nil, 12},
		"most, but late":                {[5]answer{{1, nil}, {1, nil}, {9, nil}, {past, nil}, {never, nil}}, nil, 12},
		"a silent one, which decides":   {[5]answer{{1, nil}, {1, nil}, {1, away}, {1, away}, {9, nil}}, last, 9},
		"a silent one, and one is busy": {[5]answer{{1, nil}, {1, busy}, {2, away}, {1, away}, {never, nil}}, last, 2},
		"all are silent":                {[5]answer{{1, nil}, {1, nil}, {2, busy}, {never, nil}, {never, nil}}, all, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				e := &enough{need: 3, missing: len(c.answers), limit: limit, mute: c.mute}
				for _, mute := range c.mute {
					if mute {
						e.missing--
					}
				}
				errs := atOnce(len(c.answers), e, anywhere, func(i int) error {
					time.Sleep(time.Duration(c.answers[i].after) * time.Second)
					return c.answers[i].err
				})
				assert.Equal(t, time.Duration(c.over)*time.Second, time.Since(began))
				for i, err := range errs {
					want := c.answers[i].err
					if c.answers[i].after > c.over {
						want = errUndone
					}
					assert.Equal(t, want, err)
				}
				time.Sleep(time.Duration(never) * time.Second) // until the others have gone
			})
		})
	}
}

func TestNobodyIsWaitedForWhenTheCallerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e := &enough{need: 2, missing: 3, limit: time.Minute, ends: ctx.Done()}
		errs := atOnce(3, e, anywhere, func(i int) error {
			time.Sleep(time.Duration(i) * time.Hour)
			return nil
		})
		assert.Equal(t, []error{nil, errUndone, errUndone}, errs)
		assert.Equal(t, time.Second, time.Since(began))
		time.Sleep(3 * time.Hour)
	})
}

func TestAPanicOfOneIsThatOfTheCaller(t *testing.T) {
	assert.PanicsWithValue(t, "observer", func() {
		atOnce(3, nil, anywhere, func(i int) error {
			if i == 1 {
				panic("observer")
			}
			return nil
		})
	})
}
