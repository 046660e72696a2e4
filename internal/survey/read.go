package survey

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const (
	patience     = 10 * time.Second // for the answer to a batch
	courtesy     = 2 * time.Second  // for an answer that is only nice to have
	maxText      = 128              // bytes of a string, unless one name is meant: longer ones are no lock of ours
	maxReadHolds = 100              // of one owner, whose leases are asked for
	wide         = 10_000           // COUNT where a page would show too little: a tenth of the places that are searched
)

// gone is PTTL's answer for a key that is not there.
const gone = -2

// A Reader finds out what keys are.
type Reader struct {
	Anonymous bool // which processes the sessions are is not asked

	client  rueidis.Client
	others  bool   // also strings that may be anything, and free locks that have a token
	limit   int64  // of holders, waiters and permits that are read of a name
	leases  bool   // also of every single read hold
	only    string // the one name that is meant, if it is one
	set     bool   // a string is a setlock, also if it is a number
	refusal error  // why a key could not be read
}

// Overview is a reader of many names, with others also of strings that may be anything, and of free locks that have a
// token.
func Overview(client rueidis.Client, others bool) *Reader {
	return &Reader{client: client, limit: 10, others: others}
}

// Closely is a reader of one name.
func Closely(client rueidis.Client, name string) *Reader {
	return &Reader{client: client, limit: 1000, leases: true, others: true, only: name}
}

// As makes the reader take the name for one of that kind, where the server cannot tell; "" is any.
func (r *Reader) As(kind string) *Reader {
	r.set = kind == KindSet
	return r
}

// mostText is how many bytes of a string are a lock at most: a token may have 64 KiB.
func (r *Reader) mostText() int64 {
	if r.only != "" {
		return wire.MaxName
	}
	return maxText
}

// One is all that is known of the reader's name, nil if that is nothing.
func (r *Reader) One(ctx context.Context) (*Object, error) {
	var keys []string
	for _, k := range wire.Keys {
		if k.Role != wire.Beside {
			keys = append(keys, k.Of(r.only))
		}
	}
	objects, _, err := r.read(ctx, keys)
	if err != nil || len(objects) == 0 {
		return nil, cmp.Or(err, r.refusal)
	}
	return objects[0], nil
}

// A find is a key on its way to being known.
type find struct {
	key    string
	what   wire.Key
	names  []string // of which it may be that
	drop   bool     // it is nothing of ours
	denied error    // it may not be read
	typ    string
	taken  int64 // how many of the names are taken by keys of their own

	before, after, lease, mode int64 // of a hash: how many fields, the length of its mode
	cursor                     uint64
	owners                     map[string]string
	text                       string

	object *Object
}

// A batch is commands that are sent in one go, each with what its answer is for.
type batch struct {
	commands rueidis.Commands
	finds    []*find
	uses     []func(rueidis.RedisResult) error
}

// add sends a command and uses its answer, which may be nil. If the key is of another type by now, or may not
// be read, the find is dropped; without a find nothing is.
func (b *batch) add(f *find, command rueidis.Completed, use func(rueidis.RedisResult) error) {
	b.commands, b.finds, b.uses = append(b.commands, command), append(b.finds, f), append(b.uses, use)
}

// number takes an answer that is a number.
func number(to *int64) func(rueidis.RedisResult) error {
	return func(answer rueidis.RedisResult) (err error) {
		*to, err = answer.AsInt64()
		return err
	}
}

// word takes an answer that is a text.
func word(to *string) func(rueidis.RedisResult) error {
	return func(answer rueidis.RedisResult) (err error) {
		*to, err = answer.ToString()
		return err
	}
}

// run sends the added commands and forgets them.
func (b *batch) run(ctx context.Context, client rueidis.Client) error {
	if len(b.commands) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent := *b
	*b = batch{}
	for i, answer := range client.DoMulti(ctx, sent.commands...) {
		f := sent.finds[i]
		if f == nil {
			f = &find{}
		}
		err := sent.uses[i](answer)
		switch {
		case err == nil || rueidis.IsRedisNil(err):
		case deniedKey(err):
			f.drop, f.denied = true, err
		case refusal.Says(err, "WRONGTYPE"):
			f.drop = true
		default:
			return err
		}
	}
	return nil
}

// read returns what is known about the keys that belong to a lock, a semaphore or a latch. A key beside a name counts
// only if the name has no key of its own, so that no name is listed twice. It also returns how many keys the user may
// not read.
func (r *Reader) read(ctx context.Context, keys []string) (objects []*Object, denied int, err error) {
	var finds []*find
	var b batch
	for _, key := range keys {
		f := &find{key: key}
		f.what, f.names = wire.KeyOf(key)
		if key == r.only {
			f.what = wire.Keys[0]
		}
		if r.only != "" {
			f.names = []string{r.only}
		}
		if f.what.Role == wire.Beside || f.what.Role == wire.Token && !r.others {
			continue
		}
		finds = append(finds, f)
		b.add(f, r.client.B().Type().Key(key).Build(), word(&f.typ))
		if f.what.Role == wire.Main {
			continue
		}
		for _, name := range f.names {
			b.add(f, r.client.B().Exists().Key(name).Build(), func(answer rueidis.RedisResult) error {
				n, err := answer.AsInt64()
				f.taken += n
				return err
			})
		}
	}
	for _, step := range []func(*batch, *find){r.look, r.lookOn, r.lookCloser} {
		if err := b.run(ctx, r.client); err != nil {
			return nil, 0, err
		}
		for _, f := range finds {
			if !f.drop {
				step(&b, f)
			}
		}
	}
	if err := b.run(ctx, r.client); err != nil {
		return nil, 0, err
	}
	for _, f := range finds {
		if f.denied != nil {
			denied++
			r.refusal = f.denied
		}
		if !f.drop {
			objects = append(objects, f.object)
		}
	}
	if err := r.finish(ctx, objects); err != nil {
		return nil, 0, err
	}
	return slices.DeleteFunc(objects, func(o *Object) bool { // nobody waits any more
		return o.State == Free && o.Kind != KindFenced && o.WaiterCount == nil
	}), denied, nil
}

// kindOf returns the kind of a name that has only that key.
var kindOf = map[wire.Role]string{
	wire.Sessions: KindRLock, wire.Queue: KindFair, wire.Writers: KindRW, wire.WriterLine: KindRW, wire.Token: KindFenced,
}

// look asks the questions that show what a key of that type is.
func (r *Reader) look(b *batch, f *find) {
	c := r.client
	switch {
	case f.what.Role != wire.Main && f.typ == f.what.Type && f.taken == 0:
		f.object = NewObject(f.names[0], kindOf[f.what.Role])
		f.object.State = Free
	case f.what.Role == wire.Main && f.typ == "hash":
		b.add(f, c.B().Hlen().Key(f.key).Build(), number(&f.before))
		b.add(f, c.B().Pttl().Key(f.key).Build(), number(&f.lease))
		b.add(f, c.B().Hstrlen().Key(f.key).Field(wire.ModeField).Build(), number(&f.mode))
		b.add(f, c.B().Hscan().Key(f.key).Cursor(0).Match(wire.OwnerGlob).Count(2*r.limit).Build(), f.scanned)
		b.add(f, c.B().Hlen().Key(f.key).Build(), number(&f.after))
	case f.what.Role == wire.Main && f.typ == "string":
		b.add(f, c.B().Pttl().Key(f.key).Build(), number(&f.lease))
		b.add(f, c.B().Getrange().Key(f.key).Start(0).End(r.mostText()).Build(), word(&f.text))
	default:
		f.drop = true
	}
}

// lookOn searches the rest of a hash whose first page shows no owner. One that has shrunk, as while a save forbade its
// table to, has few fields in many places.
func (r *Reader) lookOn(b *batch, f *find) {
	if f.cursor == 0 || len(f.owners) > 0 || f.before > 20*r.limit {
		return
	}
	b.add(f, r.client.B().Hscan().Key(f.key).Cursor(f.cursor).Match(wire.OwnerGlob).Count(wide).Build(), f.scanned)
}

// scanned takes a page of a hash's owners.
func (f *find) scanned(answer rueidis.RedisResult) error {
	page, err := answer.AsScanEntry()
	f.cursor, f.owners = page.Cursor, map[string]string{}
	for i := 1; i < len(page.Elements); i += 2 {
		f.owners[page.Elements[i-1]] = page.Elements[i]
	}
	return err
}

// lookCloser says what the key is, if it is one of ours, and asks for the rest.
func (r *Reader) lookCloser(b *batch, f *find) {
	switch {
	case f.object != nil:
	case f.typ == "hash":
		f.object = f.lock()
	default:
		f.object = r.text(f)
	}
	o := f.object
	if o == nil {
		f.drop = true
		return
	}
	c, last := r.client, strconv.FormatInt(r.limit-1, 10) // nobody minds what may not be read beside the name
	waiters := func(key string, count *int64, alive ...string) {
		b.add(nil, c.B().Llen().Key(key).Build(), number(count))
		b.add(nil, c.B().Lrange().Key(key).Start(0).Stop(r.limit-1).Build(), o.queued(alive...))
	}
	switch o.Kind {
	case KindLock, KindRLock, KindFair, KindFenced:
		waiters(wire.Line(o.Name), &o.line, wire.LineAlive(o.Name))
		waiters(wire.FairQueue(o.Name), &o.queue, wire.FairDue(o.Name), wire.FairAlive(o.Name)) // ours decides
		b.add(nil, c.B().Hscan().Key(wire.LeaderKey(o.Name)).Cursor(0).Build(), o.leads)
		b.add(nil, c.B().Get().Key(wire.TokenKey(o.Name)).Build(), func(answer rueidis.RedisResult) error {
			text, err := answer.ToString()
			if n, ok := wire.Number(text); ok && err == nil {
				o.Token = &n
			}
			return err
		})
	case KindRW:
		waiters(wire.RWLine(o.Name), &o.line, wire.RWAlive(o.Name))
		b.add(nil, c.B().Zrange().Key(wire.RWWriters(o.Name)).Min("0").Max(last).Withscores().Build(), o.waitToWrite)
	case KindNumber:
		waiters(wire.Line(o.Name), &o.line, wire.LineAlive(o.Name))
		o.Taken = new(int64)
		b.add(nil, c.B().Zcard().Key(wire.PermitsKey(o.Name)).Build(), number(o.Taken))
		if r.leases {
			b.add(nil, c.B().Zrange().Key(wire.PermitsKey(o.Name)).Min("0").Max(last).Withscores().Build(), o.permits)
			b.add(nil, c.B().Hscan().Key(wire.BarrierKey(o.Name)).Cursor(0).Count(allParties).Build(), o.waitTogether)
		}
	}
}

// allParties is twice what the hash of the largest barrier has, for servers that count a field and its value: how far
// it is may stand anywhere in it.
const allParties = 2 * 11_000

// waitTogether is told how far a barrier is, nothing if the permits are not of one.
func (o *Object) waitTogether(answer rueidis.RedisResult) error {
	entry, err := answer.AsScanEntry()
	for pair := range slices.Chunk(entry.Elements, 2) {
		if o.Barrier == nil {
			o.Barrier = &Barrier{}
		}
		switch pair[0] {
		case "gen":
			o.Barrier.Generation, _ = wire.Number(pair[1])
		case "arrived":
			o.Barrier.Arrived, _ = wire.Number(pair[1])
		}
	}
	return err
}

// leads is told what an election has recorded of its leader, nothing if the lock is of none.
func (o *Object) leads(answer rueidis.RedisResult) error {
	entry, err := answer.AsScanEntry()
	l := &Leader{}
	for pair := range slices.Chunk(entry.Elements, 2) {
		switch pair[0] {
		case "owner":
			l.owner = pair[1]
		case "term":
			l.Term, _ = wire.Number(pair[1])
		case "since":
			l.SinceMS, _ = wire.Number(pair[1])
		}
	}
	o.Leader = l
	return err
}

// lock returns the meaning of a hash: nil if it is not a lock.
func (f *find) lock() *Object {
	o := NewObject(f.key, KindLock)
	o.State, o.LeaseMS = Held, &f.lease
	fields, mode := int64(len(f.owners)), ""
	switch f.mode {
	case 0:
	case int64(len(wire.ModeRead)), int64(len(wire.ModeWrite)):
		o.Kind, mode = KindRW, wire.ModeRead
		fields++
	default:
		return nil
	}
	for field, text := range f.owners {
		h, ok := wire.ParseHold(field, text)
		if !ok || h.Writes && mode == "" {
			return nil
		}
		p := &Party{ID: h.Owner, Session: h.Session, Count: h.Count, Mode: mode}
		if h.Writes {
			p.Mode = wire.ModeWrite
		}
		o.Holders = append(o.Holders, p)
	}
	// There are fields of another sort if they were more both before and after.
	if len(o.Holders) == 0 || f.lease == gone || f.cursor == 0 && fields < min(f.before, f.after) {
		return nil
	}
	count := int64(len(o.Holders))
	if f.cursor != 0 {
		count = max(count, f.after-(fields-count))
	}
	o.HolderCount = &count
	slices.SortFunc(o.Holders, func(x, y *Party) int { // a writer first: it keeps the others out
		return cmp.Or(cmp.Compare(y.Mode, x.Mode), cmp.Compare(x.ID, y.ID))
	})
	return o
}

// text returns the meaning of a string: nil if it is nothing of ours.
func (r *Reader) text(f *find) *Object {
	if f.lease == gone || int64(len(f.text)) > r.mostText() {
		return nil
	}
	if n, ok := wire.Number(f.text); ok && !r.set {
		o := NewObject(f.key, KindNumber)
		o.Value = &n
		if f.lease >= 0 {
			o.LeaseMS = &f.lease
		}
		return o
	}
	o := NewObject(f.key, KindSet)
	holder := NewParty(f.text, "")
	if holder.Session == "" {
		o.Kind = KindString
		if !r.others || f.lease < 0 {
			return nil
		}
	}
	holder.Count, holder.LeaseMS = 1, &f.lease
	o.State, o.LeaseMS, o.Holders, o.HolderCount = Held, &f.lease, []*Party{holder}, &holder.Count
	return o
}

// deniedKey reports whether the user may send the command, but not for that key.
func deniedKey(err error) bool {
	return refusal.Denied(err) && !strings.Contains(err.Error(), "permissions to run")
}
