package survey

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// queued takes the waiters in a line or a queue. The keys have until when they are alive.
func (o *Object) queued(alive ...string) func(rueidis.RedisResult) error {
	return func(answer rueidis.RedisResult) error {
		texts, err := answer.AsStrSlice()
		for _, text := range texts {
			owner, _, _ := strings.Cut(text, " ") // in a line, what it is to be granted follows
			w := NewParty(owner, "")
			w.text, w.alive = text, alive
			o.Waiters = append(o.Waiters, w)
		}
		return err
	}
}

// waitToWrite takes the waiting writers, with the server's time when they count as dead.
func (o *Object) waitToWrite(answer rueidis.RedisResult) error {
	scores, err := answer.AsZScores()
	for _, s := range scores {
		w, until := NewParty(s.Member, wire.ModeWrite), int64(s.Score)
		w.AliveMS = &until
		o.Waiters = append(o.Waiters, w)
	}
	return err
}

// permits takes the permits, with the server's time when they are over.
func (o *Object) permits(answer rueidis.RedisResult) error {
	scores, err := answer.AsZScores()
	for _, s := range scores {
		p := &Permit{ID: wire.PermitID(s.Member), LeaseMS: int64(s.Score)}
		if p.LeaseMS == wire.Endless {
			p.LeaseMS = NoEnd
		}
		o.Permits = append(o.Permits, p)
	}
	return err
}

// finish settles the questions that the answers leave open: kinds, times by the server's clock, leases of single holds,
// and which processes the sessions are.
func (r *Reader) finish(ctx context.Context, objects []*Object) (err error) {
	var now int64
	if slices.ContainsFunc(objects,
		func(o *Object) bool { return len(o.Waiters) > 0 || o.Taken != nil && *o.Taken > 0 }) {
		if now, err = serverNow(ctx, r.client); err != nil {
			return err
		}
	}
	var b batch
	for _, o := range objects {
		r.settle(&b, o, now)
	}
	if err := b.run(ctx, r.client); err != nil {
		return err
	}
	for _, o := range objects {
		if o.WaiterCount != nil && *o.WaiterCount == 0 {
			o.WaiterCount = nil // there may be some, but not in a queue
		}
		for _, w := range o.Waiters {
			if w.AliveMS != nil {
				*w.AliveMS = max(*w.AliveMS-now, 0)
			}
		}
		for _, p := range o.Permits {
			if p.LeaseMS != NoEnd {
				p.LeaseMS = max(p.LeaseMS-now, 0)
			}
		}
	}
	r.introduce(ctx, objects)
	for _, o := range objects {
		if r.leases && len(o.Permits) > 0 {
			r.introducePermits(ctx, o.Permits)
		}
	}
	return nil
}

// settle says which kind it is, and asks for the rest.
func (r *Reader) settle(b *batch, o *Object, now int64) {
	c := r.client
	o.Holders = o.Holders[:min(int64(len(o.Holders)), r.limit)]
	switch o.Kind {
	case KindLock, KindRLock, KindFair, KindFenced:
		all := o.line + o.queue
		o.WaiterCount = &all
		switch {
		case o.line > 0 && o.queue > 0: // it is used as both
			o.Kind = KindLock
		case o.queue > 0:
			o.Kind = KindFair
		case o.Token != nil:
			o.Kind = KindFenced
		case o.line > 0:
			o.Kind = KindRLock
		}
		if slices.ContainsFunc(o.Holders, func(h *Party) bool { return o.Leader != nil && h.ID == o.Leader.owner }) {
			o.Kind = KindFair
		} else {
			o.Leader = nil
		}
		for _, h := range o.Holders {
			h.LeaseMS = o.LeaseMS
		}
		r.settleWaiters(b, o)
	case KindRW:
		line := map[string]bool{}
		for _, w := range o.Waiters {
			if w.text != "" {
				w.Mode, line[w.ID] = wire.ModeWrite, true
			}
		}
		// Who keeps readers waiting is in the line as well, unless it does not know that.
		o.Waiters = slices.DeleteFunc(o.Waiters, func(w *Party) bool {
			return w.text == "" && (line[w.ID] || *w.AliveMS <= now)
		})
		all := o.line + int64(len(o.Waiters)-len(line))
		o.WaiterCount = &all
		r.settleWaiters(b, o)
		for _, h := range o.Holders {
			switch {
			case h.Mode == wire.ModeWrite:
				h.LeaseMS = o.LeaseMS
			case r.leases:
				h.LeaseMS = new(int64)
				for n := range min(h.Count, maxReadHolds) {
					key := wire.ReadHold(o.Name, h.ID, int(n)+1)
					b.add(nil, c.B().Pttl().Key(key).Build(), func(answer rueidis.RedisResult) error {
						left, err := answer.AsInt64()
						*h.LeaseMS = longer(*h.LeaseMS, left)
						return err
					})
				}
			}
		}
	case KindNumber:
		o.WaiterCount = new(int64)
		*o.WaiterCount = o.line
		r.settleWaiters(b, o)
		all := *o.Taken
		if all == 0 {
			o.Taken, o.Permits, o.Barrier = nil, nil, nil
			return
		}
		o.Kind = KindPermits
		from := "(" + strconv.FormatInt(now, 10)
		count := c.B().Zcount().Key(wire.PermitsKey(o.Name)).Min(from).Max("+inf").Build()
		b.add(nil, count, func(answer rueidis.RedisResult) error {
			taken, err := answer.AsInt64()
			if err == nil { // those whose lease is over are free, though nobody has put them back yet
				*o.Taken = taken
				*o.Value += max(all-taken, 0)
			}
			return err
		})
	}
}

// settleWaiters asks until when those in a line or a queue are alive.
func (r *Reader) settleWaiters(b *batch, o *Object) {
	for _, w := range o.Waiters {
		for _, key := range w.alive {
			b.add(nil, r.client.B().Zscore().Key(key).Member(w.text).Build(), func(answer rueidis.RedisResult) error {
				score, err := answer.AsFloat64()
				if ms := int64(score); err == nil {
					w.AliveMS = &ms
				}
				return err
			})
		}
	}
}

// longer is the longer one of two leases.
func longer(x, y int64) int64 {
	if x == NoEnd || y == NoEnd {
		return NoEnd
	}
	return max(x, y)
}

// serverNow returns the server's clock in ms; in a cluster, the clock of any node that answers.
func serverNow(ctx context.Context, client rueidis.Client) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := cluster.Ask(ctx, client, "TIME")
	if err != nil {
		return 0, err
	}
	parts, err := answer.AsIntSlice()
	if err != nil {
		return 0, err
	}
	return parts[0]*1000 + parts[1]/1000, nil
}

// introduce adds which processes holders and waiters are. Some of that cannot be read in a cluster, if what
// they hold is on one server and their session on another that is down.
func (r *Reader) introduce(ctx context.Context, objects []*Object) {
	if r.Anonymous {
		return
	}
	var all []*Party
	for _, o := range objects {
		all = append(append(all, o.Holders...), o.Waiters...)
	}
	var sessions []string
	for _, p := range all {
		sessions = append(sessions, p.Session)
	}
	ctx, cancel := context.WithTimeout(ctx, courtesy)
	defer cancel()
	known, _ := presence.Ask(ctx, r.client, sessions)
	r.Anonymous = ctx.Err() != nil // a server is silent, and would be so for each page of names
	for _, p := range all {
		if told, ok := known[p.Session]; ok {
			p.Process = &told.Process
		}
	}
	for _, o := range objects {
		for _, h := range o.Holders {
			h.tells(o.Name, known[h.Session])
		}
	}
}

// introducePermits adds which processes have permits, and their notes. A permit's id does not tell its session, so all
// sessions are looked at, for as long as that does not take long.
func (r *Reader) introducePermits(ctx context.Context, permits []*Permit) {
	if r.Anonymous {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, courtesy)
	defer cancel()
	ids, _ := sessions(ctx, r.client)
	known, _ := presence.Ask(ctx, r.client, ids)
	for _, told := range known {
		for _, p := range permits {
			if note := told.Notes[p.ID]; note != "" {
				p.Process, p.Note = &told.Process, note
			}
		}
	}
}

// tells adds what a holder's session publishes about the hold of a name.
func (p *Party) tells(name string, told presence.Told) {
	p.Note = told.Notes[p.ID]
	p.WaitsForItself = slices.Contains(told.Itself, string([]rune(name))) // as JSON has a name that is not UTF-8
	for _, w := range told.Waits {
		if slices.Contains(w.Holds, p.ID) {
			p.WaitsFor = append(p.WaitsFor, w.Name)
		}
	}
}
