package several

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// release ends the holds, one of each lock, and gives them back; by one call if nothing is nested in any
// of them.
func (b *Batch) release(holds []*core.Single) error {
	r, err := core.EndTogether(holds)
	if r == nil { // each says why it ended
		return errors.Join(atOnce(len(holds), nil, b.on, func(i int) error { return holds[i].Release() })...)
	}
	defer r.Over()
	errs, done := r.Together(b.giveBack)
	if !done {
		errs = atOnce(r.Len(), nil, b.on, r.One)
	}
	return errors.Join(append(errs, err)...)
}

// giveBack sends the call that releases.
func (b *Batch) giveBack(ctx context.Context, wire string, locks []*core.Lock) ([]int64, error) {
	together := b.locks[0].Together
	call := script.NewCall(together.Release).Arg(wire, b.Publish(), b.Session().Counting())
	defer call.Free()
	for _, l := range locks {
		call.Key(together.Keys(l.Key())...).Arg(l.Channel)
	}
	if err := b.Session().Runner().Run(ctx, script.Return, call); err != nil {
		return nil, err
	}
	told, err := call.ReadInts(nil)
	if err == nil && len(told) != len(locks) {
		err = call.Unexpected()
	}
	return told, err
}

// on is the session of each lock.
func (b *Batch) on(int) *session.Session { return b.Session() }
