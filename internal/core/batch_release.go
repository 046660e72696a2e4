package core

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
)

// release ends the holds, one of each lock, and gives them back; by one call if nothing is nested in any
// of them.
func (b *Batch) release(holds []*Single) []error {
	errs := make([]error, len(holds))
	now := b.session.now()
	if !b.session.calls.enter() {
		return atOnce(len(holds), len(holds), func(i int) error { return holds[i].Release() }) // says why it ended
	}
	ctx, cancel := b.session.within(now, lease.Bound(b.shortest))
	var ended []int
	for i, h := range holds {
		if errs[i] = h.end(now, releasedEnd); errs[i] == nil {
			ended = append(ended, i)
		}
	}
	endings := make([]*ending, len(holds))
	if !b.releaseTogether(ctx, holds, ended, endings, errs) {
		atOnce(len(ended), len(ended), func(i int) (err error) {
			i = ended[i]
			endings[i], errs[i] = holds[i].giveBack(ctx)
			return errs[i]
		})
	}
	cancel()
	b.session.calls.leave()
	for i, h := range holds {
		if endings[i] != nil {
			defer h.tellEnd(endings[i], h.held()) // the others', whatever one of them does
		}
	}
	return errs
}

// releaseTogether gives back those of the holds that have been ended by one call, unless there are others
// of their owner.
func (b *Batch) releaseTogether(ctx context.Context, holds []*Single, ended []int, endings []*ending, errs []error) bool {
	var claims []*claim
	for _, i := range ended {
		claims = append(claims, holds[i].tenure.claim)
	}
	leave, err := enterAll(ctx, claims)
	if err != nil {
		return false
	}
	rests := make([]Rest, len(ended))
	for n, i := range ended {
		if rests[n] = holds[i].tenure.rest(); rests[n].Count > 0 {
			leave()
			return false
		}
	}
	replies := make([]int64, len(ended))
	for delay := firstRetry; len(ended) > 0; delay = min(2*delay, lastRetry) {
		err = b.lower(ctx, holds, ended, rests, replies)
		if err == nil || !script.IsTemporary(err) || pause(ctx, delay) != nil {
			break
		}
	}
	leave()
	if script.ClassOf(err) == script.Refused && !script.IsTemporary(err) && ctx.Err() == nil {
		return false // because of one of them, perhaps; nothing was freed
	}
	for n, i := range ended {
		endings[i], errs[i] = holds[i].gaveBack(ctx, replies[n], rests[n], err)
	}
	return true
}

// lower sends the call that releases.
func (b *Batch) lower(ctx context.Context, holds []*Single, ended []int, rests []Rest, replies []int64) error {
	first := holds[ended[0]]
	call := script.NewCall(b.locks[0].Together.Release).Arg(first.tenure.wire, b.session.publish())
	defer call.Free()
	sent := b.session.now()
	for n, i := range ended {
		l := holds[i].lock
		call.Key(l.key).Arg(l.Channel)
		holds[i].tenure.lowering(rests[n])
	}
	err := b.session.runner.Run(ctx, script.Return, call)
	n := make([]int64, 0, len(ended))
	if err == nil {
		n, err = call.ReadInts(n)
	}
	if err == nil && len(n) != len(ended) {
		err = call.Unexpected()
	}
	for k, i := range ended {
		reply := int64(absent)
		if err == nil {
			reply = n[k]
		}
		replies[k], _ = holds[i].tenure.lowered(rests[k], sent, reply, err)
	}
	return err
}
