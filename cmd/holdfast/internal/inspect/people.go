package inspect

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// forEver is the score of a permit without end.
const forEver = 922337203685477

// maxReadHolds is of how many read holds of an owner the leases are asked for.
const maxReadHolds = 100

// holderOf is who a field of a lock's hash tells of, if it is that.
func holderOf(field, text string) (Holder, bool) {
	parts := cli.Owner.FindStringSubmatch(field)
	count, ok := wholeNumber(text)
	if parts == nil || !ok || count < 1 {
		return Holder{}, false
	}
	h := Holder{ID: field, Session: parts[1], Count: count}
	if parts[2] != "" {
		h.Mode = ModeWrite
		h.ID = strings.TrimSuffix(field, ":write")
	}
	return h, true
}

// HolderOf is how these commands tell of a holder of which the library knows.
func HolderOf(h holdfast.Holder, mode string) Holder {
	lease := max(h.Lease.Milliseconds(), neverExpires)
	told := Holder{ID: h.ID, Session: sessionOf(h.ID), Mode: mode, Count: int64(h.Count), LeaseMS: &lease}
	if h.Host != "" || h.PID != 0 {
		told.Process = &presence.Process{Host: h.Host, PID: h.PID, Program: h.Program, Label: h.Label, Started: h.Started}
	}
	return told
}

// askQueue asks who waits for a fair lock.
func (r *reader) askQueue(b *batch, f *find, o *Object) {
	c := r.client
	o.WaiterCount = new(int64)
	b.number(f, c.B().Llen().Key(wire.FairQueue(o.Name)).Build(), o.WaiterCount)
	b.add(f, c.B().Lrange().Key(wire.FairQueue(o.Name)).Start(0).Stop(r.limit-1).Build(), func(answer rueidis.RedisResult) error {
		owners, err := answer.AsStrSlice()
		for _, owner := range owners {
			o.Waiters = append(o.Waiters, Waiter{ID: owner, Session: sessionOf(owner)})
		}
		return err
	})
}

// waitToWrite takes in the writers that wait, with until when they count.
func (o *Object) waitToWrite(answer rueidis.RedisResult) error {
	scores, err := answer.AsZScores()
	for _, s := range scores {
		until := int64(s.Score)
		o.Waiters = append(o.Waiters, Waiter{ID: s.Member, Session: sessionOf(s.Member), Mode: ModeWrite, AliveMS: &until})
	}
	return err
}

// permits takes in the permits, with until when they are taken.
func (o *Object) permits(answer rueidis.RedisResult) error {
	scores, err := answer.AsZScores()
	for _, s := range scores {
		o.Permits = append(o.Permits, Permit{ID: hex.EncodeToString([]byte(s.Member)), LeaseMS: int64(s.Score)})
	}
	return err
}

// finish settles what the answers leave open: kinds, times by the server's clock, leases of single
// holds, and which processes those are.
func (r *reader) finish(ctx context.Context, objects []*Object) error {
	var now int64
	var b batch
	about := &find{} // whatever is refused here is left out
	for _, o := range objects {
		if len(o.Waiters) > 0 || len(o.Permits) > 0 || o.Taken != nil && *o.Taken > 0 {
			if now != 0 {
				break
			}
			var err error
			if now, err = serverNow(ctx, r.client); err != nil {
				return err
			}
		}
	}
	for _, o := range objects {
		r.settle(&b, about, o, now)
	}
	if err := b.run(ctx, r.client); err != nil {
		return err
	}
	for _, o := range objects {
		if o.WaiterCount != nil && *o.WaiterCount == 0 {
			o.WaiterCount = nil // there may be some, but not in a queue
		}
		for i := range o.Waiters {
			if ms := o.Waiters[i].AliveMS; ms != nil {
				*ms = max(*ms-now, 0)
			}
		}
		for i := range o.Permits {
			p := &o.Permits[i]
			if p.LeaseMS == forEver {
				p.LeaseMS = neverExpires
			} else {
				p.LeaseMS = max(p.LeaseMS-now, 0)
			}
		}
	}
	r.introduce(ctx, objects)
	return nil
}

// settle says which kind it is, and asks for what is to be known besides.
func (r *reader) settle(b *batch, about *find, o *Object, now int64) {
	c := r.client
	slices.SortFunc(o.Holders, func(x, y Holder) int { // who writes first: that one keeps the others out
		return cmp.Or(cmp.Compare(y.Mode, x.Mode), cmp.Compare(x.ID, y.ID))
	})
	o.Holders = o.Holders[:min(int64(len(o.Holders)), r.limit)]
	switch o.Kind {
	case kindLock, kindFair, kindFenced:
		switch {
		case *o.WaiterCount > 0:
			o.Kind = kindFair
		case o.Token != nil:
			o.Kind = kindFenced
		}
		for i := range o.Holders {
			o.Holders[i].LeaseMS = o.LeaseMS
		}
		for i := range o.Waiters {
			w := &o.Waiters[i]
			for _, key := range []string{wire.FairDue(o.Name), wire.FairAlive(o.Name)} { // ours decides
				b.add(about, c.B().Zscore().Key(key).Member(w.ID).Build(), func(answer rueidis.RedisResult) error {
					score, err := answer.AsFloat64()
					if err == nil {
						ms := int64(score)
						w.AliveMS = &ms
					}
					return err
				})
			}
		}
	case kindRW:
		alive := slices.DeleteFunc(o.Waiters, func(w Waiter) bool { return *w.AliveMS <= now })
		if *o.WaiterCount <= r.limit {
			*o.WaiterCount = int64(len(alive))
		}
		o.Waiters = alive
		for i := range o.Holders {
			h := &o.Holders[i]
			if h.Mode == ModeWrite {
				h.LeaseMS = o.LeaseMS
				continue
			}
			if !r.leases {
				continue
			}
			h.LeaseMS = new(int64)
			for n := range min(h.Count, maxReadHolds) {
				b.add(about, c.B().Pttl().Key(wire.Suffix(o.Name, h.ID+":rwlock_timeout:"+strconv.FormatInt(n+1, 10))).Build(), func(answer rueidis.RedisResult) error {
					left, err := answer.AsInt64()
					if left == neverExpires || *h.LeaseMS == neverExpires {
						*h.LeaseMS = neverExpires
					} else {
						*h.LeaseMS = max(*h.LeaseMS, left)
					}
					return err
				})
			}
		}
	case kindNumber:
		if *o.Taken == 0 {
			o.Taken = nil
			return
		}
		o.Kind = kindPermits
		all := *o.Taken
		b.add(about, c.B().Zcount().Key(wire.PermitsKey(o.Name)).Min("("+strconv.FormatInt(now, 10)).Max("+inf").Build(), func(answer rueidis.RedisResult) error {
			taken, err := answer.AsInt64()
			if err == nil { // those whose lease is over are free, though nobody has put them back yet
				*o.Taken = taken
				*o.Value += max(all-taken, 0)
			}
			return err
		})
	}
}

// courtesy is for how long an answer is waited for that is nice to have.
const courtesy = 2 * time.Second

// introduce adds which processes holders and waiters are, as far as they tell. Whom that cannot be read of
// is not known: they may be on a server that is down, and what they hold on another.
func (r *reader) introduce(ctx context.Context, objects []*Object) {
	if r.strangers {
		return
	}
	var sessions []string
	for _, o := range objects {
		for _, h := range o.Holders {
			sessions = append(sessions, h.Session)
		}
		for _, w := range o.Waiters {
			sessions = append(sessions, w.Session)
		}
	}
	slices.Sort(sessions)
	sessions = slices.DeleteFunc(slices.Compact(sessions), func(s string) bool { return s == "" })
	if len(sessions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, courtesy)
	defer cancel()
	known, _ := presence.Find(ctx, r.client, sessions)
	r.strangers = ctx.Err() != nil // a server is silent, and would be so for each page of names
	process := func(session string) *presence.Process {
		if p, ok := known[session]; ok {
			return &p
		}
		return nil
	}
	for _, o := range objects {
		for i := range o.Holders {
			o.Holders[i].Process = process(o.Holders[i].Session)
		}
		for i := range o.Waiters {
			o.Waiters[i].Process = process(o.Waiters[i].Session)
		}
	}
}
