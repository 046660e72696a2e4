package inspect

import (
	"context"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A reader finds out what keys are.
type reader struct {
	client rueidis.Client
	limit  int64  // of holders, waiters and permits that are read of a name
	leases bool   // also of every single read hold
	others bool   // also strings that may be anything, and free locks that have a token
	only   string // the one name that is meant, if it is one

	strangers bool // which processes they are is not asked

	refusal error // why a key could not be read
}

// overview is for many names.
func overview(client rueidis.Client) *reader { return &reader{client: client, limit: 10} }

// closely is for one.
func closely(client rueidis.Client) *reader {
	return &reader{client: client, limit: 1000, leases: true, others: true}
}

// A find is a key on its way to being known.
type find struct {
	key    string
	role   role
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

// maxText is how much of a string is read: longer ones are no lock of ours and no number.
const maxText = 128

// read returns what is known of those keys that belong to a lock, a semaphore or a latch. A key
// beside a name counts only if the name has no key of its own, so that no name is told twice. It
// also returns how many keys could not be read for want of rights.
func (r *reader) read(ctx context.Context, keys []string) (objects []*Object, noRights int, err error) {
	finds := make([]*find, 0, len(keys))
	var b batch
	for _, key := range keys {
		f := &find{key: key}
		if f.role, f.names = roleOf(key); key == r.only {
			f.role = itself
		}
		if f.role == beside || f.role == tokens && !r.others {
			continue
		}
		if r.only != "" && f.role != itself {
			f.names = []string{r.only}
		}
		finds = append(finds, f)
		b.add(f, r.client.B().Type().Key(key).Build(), func(answer rueidis.RedisResult) (err error) {
			f.typ, err = answer.ToString()
			return err
		})
		if f.role == itself {
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
	for _, step := range []func(*batch, *find){r.look, r.lookCloser} {
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
			noRights++
			r.refusal = f.denied
		}
		if !f.drop && f.object != nil {
			objects = append(objects, f.object)
		}
	}
	if err := r.finish(ctx, objects); err != nil {
		return nil, 0, err
	}
	return slices.DeleteFunc(objects, func(o *Object) bool { // that nobody waits for any more
		return o.State == stateFree && o.Kind != kindFenced && o.WaiterCount == nil
	}), noRights, nil
}

// look asks for what tells what a key of that type is.
func (r *reader) look(b *batch, f *find) {
	c := r.client
	switch {
	case f.role == queue && f.typ == "list" && f.taken == 0:
		f.object = newObject(f.names[0], kindFair)
		f.object.State = stateFree
	case f.role == writers && f.typ == "zset" && f.taken == 0:
		f.object = newObject(f.names[0], kindRW)
		f.object.State = stateFree
	case f.role == tokens && f.typ == "string" && f.taken == 0:
		f.object = newObject(f.names[0], kindFenced)
		f.object.State = stateFree
	case f.role == itself && f.typ == "hash":
		b.number(f, c.B().Hlen().Key(f.key).Build(), &f.before)
		b.number(f, c.B().Pttl().Key(f.key).Build(), &f.lease)
		b.number(f, c.B().Hstrlen().Key(f.key).Field("mode").Build(), &f.mode)
		b.add(f, c.B().Hscan().Key(f.key).Cursor(0).Match(ownerGlob).Count(2*r.limit).Build(), f.scanned)
		b.number(f, c.B().Hlen().Key(f.key).Build(), &f.after)
	case f.role == itself && f.typ == "string":
		b.number(f, c.B().Pttl().Key(f.key).Build(), &f.lease)
		b.add(f, c.B().Getrange().Key(f.key).Start(0).End(maxText).Build(), func(answer rueidis.RedisResult) (err error) {
			f.text, err = answer.ToString()
			return err
		})
	default:
		f.drop = true
	}
}

// scanned takes in a page of a hash's owners.
func (f *find) scanned(answer rueidis.RedisResult) error {
	parts, err := answer.ToArray()
	if err != nil || len(parts) != 2 {
		return err
	}
	if f.cursor, err = parts[0].AsUint64(); err != nil {
		return err
	}
	flat, err := parts[1].AsStrSlice()
	if err != nil {
		return err
	}
	if f.owners == nil {
		f.owners = map[string]string{}
	}
	for i := 0; i+1 < len(flat); i += 2 {
		f.owners[flat[i]] = flat[i+1]
	}
	return nil
}

// lookCloser says what the key is, if it is anything of ours, and asks for the rest.
func (r *reader) lookCloser(b *batch, f *find) {
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
	c, spare := r.client, &find{} // what may not be read of the keys beside is left out
	switch o.Kind {
	case kindLock, kindFair, kindFenced:
		r.askQueue(b, spare, o)
		b.add(spare, c.B().Get().Key(wire.TokenKey(o.Name)).Build(), func(answer rueidis.RedisResult) error {
			text, err := answer.ToString()
			if n, ok := wholeNumber(text); ok && err == nil {
				o.Token = &n
			}
			return err
		})
	case kindRW:
		o.WaiterCount = new(int64)
		b.number(spare, c.B().Zcard().Key(wire.RWWriters(o.Name)).Build(), o.WaiterCount)
		b.add(spare, c.B().Zrange().Key(wire.RWWriters(o.Name)).Min("0").Max(last(r.limit)).Withscores().Build(), o.waitToWrite)
	case kindNumber:
		o.Taken = new(int64)
		b.number(spare, c.B().Zcard().Key(wire.PermitsKey(o.Name)).Build(), o.Taken)
		if r.leases {
			b.add(spare, c.B().Zrange().Key(wire.PermitsKey(o.Name)).Min("0").Max(last(r.limit)).Withscores().Build(), o.permits)
		}
	}
}

// last is the index of the last of n.
func last(n int64) string { return strconv.FormatInt(n-1, 10) }

// lock is what a hash is: nil if it is none of the locks.
func (f *find) lock() *Object {
	o := newObject(f.key, kindLock)
	o.State, o.LeaseMS = stateHeld, &f.lease
	fields := int64(len(f.owners))
	switch f.mode {
	case 0:
	case int64(len(ModeRead)), int64(len(ModeWrite)):
		o.Kind = kindRW
		fields++
	default:
		return nil
	}
	for field, text := range f.owners {
		h, ok := holderOf(field, text)
		if !ok || o.Kind == kindLock && h.Mode == ModeWrite {
			return nil
		}
		if o.Kind == kindRW && h.Mode == "" {
			h.Mode = ModeRead
		}
		o.Holders = append(o.Holders, h)
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
	return o
}

// gone is PTTL's answer for a key that is not there.
const gone = -2

// text is what a string is: nil if it is nothing of ours.
func (r *reader) text(f *find) *Object {
	if f.lease == gone || len(f.text) > maxText {
		return nil
	}
	if n, ok := wholeNumber(f.text); ok {
		o := newObject(f.key, kindNumber)
		o.Value = &n
		if f.lease >= 0 {
			o.LeaseMS = &f.lease
		}
		return o
	}
	kind := kindSet
	if !cli.Owner.MatchString(f.text) {
		kind = kindString
		if !r.others || f.lease < 0 {
			return nil
		}
	}
	o := newObject(f.key, kind)
	count := int64(1)
	o.State, o.LeaseMS, o.HolderCount = stateHeld, &f.lease, &count
	o.Holders = []Holder{{ID: f.text, Session: sessionOf(f.text), Count: 1, LeaseMS: &f.lease}}
	return o
}

// wholeNumber is the number that Redis would take a text for.
func wholeNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text && utf8.ValidString(text)
}
