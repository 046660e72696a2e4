package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// The kinds of operations on permits that have leases, besides those on permits that are only counted. The last is
// nobody's call: it stands for the moment at which the server takes permits back by itself.
const (
	opTaken  = "taken"
	opUpdate = "update"
	opDetach = "detach"
	opTrust  = "trust"
	opLapse  = "lapse"
)

// The size of a history of permits with leases.
const (
	leasedPools   = 7
	leasedPermits = 4
	firstPause    = 5 * time.Millisecond // before a call is repeated, at least
	lapseSlack    = 3 * time.Millisecond // the server's clock shows whole ms
	leaseSlack    = kit.WorkerLease / 3  // in which what is under way is executed
)

// leaser does things to semaphores whose permits have leases.
func leaser(args []string) {
	direct, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{args[2]}, DisableCache: true})
	kit.Must(err)
	defer direct.Close()
	narrate(args, kit.WorkerLease, func(c *client) { (&tenant{client: c, rumours: direct}).stay() })
}

// A tenant has permits of one semaphore once.
type tenant struct {
	*client
	rumours rueidis.Client // where ids of permits are told, and heard
	pool    *semaphore.Expirable
	lease   time.Duration // of its permits; 0: renewed
	holds   []*holdfast.Hold
}

// stay takes permits, does some things to its own and to others, and gives its own back or leaves them to their leases.
func (c *tenant) stay() {
	if rand.N(2) == 0 {
		c.lease = 100*time.Millisecond + rand.N(200*time.Millisecond)
	}
	n := rand.N(leasedPools)
	if n == 0 && rand.N(6) > 0 {
		n = 1 + rand.N(leasedPools-1) // the first one is quiet: what is over there stays until somebody looks
	}
	name := fmt.Sprint("pool ", n)
	c.pool = semaphore.NewExpirable(c.session, name, &semaphore.ExpirableOptions{FixedLease: c.lease})
	ctx := context.Background()
	c.acquire(ctx)
	if len(c.holds) > 0 && rand.N(2) == 0 {
		c.tell(ctx, c.holds[0].ID())
	}
	for range rand.N(4) {
		c.something(ctx)
	}
	if len(c.holds) > 0 && rand.N(100) == 0 {
		kit.SleepUntil(time.Now().Add(rand.N(2 * cmp.Or(c.lease, kit.WorkerLease))))
		c.trust()
	}
	if own := kit.HoldIDs(c.holds...); len(own) > 0 && rand.N(8) == 0 {
		c.give(own...)
	}
	for _, h := range c.holds {
		d := deed{Lock: name, Kind: opRelease, Tag: h.ID(), Until: lastDeadline([]*holdfast.Hold{h})}
		if rand.N(25) == 0 || n == 0 && rand.N(3) == 0 {
			d.Kind = opDetach
			c.do(d, func() string { return outcome(h.Detach()) })
			if n == 0 && c.lease > 0 {
				c.late(ctx, h.ID())
			}
			continue
		}
		c.do(d, func() string { return outcome(h.Release()) })
	}
}

// late wants a permit to last, or to come back, whose lease has just ended.
func (c *tenant) late(ctx context.Context, id string) {
	kit.SleepUntil(time.Now().Add(c.lease + rand.N(20*time.Millisecond)))
	if rand.N(2) == 0 {
		c.update(ctx, id, c.lease)
	} else {
		c.give(id)
	}
}

func (c *tenant) acquire(ctx context.Context) {
	n, wait := 1, time.Duration(0)
	switch rand.N(4) {
	case 0:
		n = 2 + rand.N(2)
	case 1:
		wait = rand.N(20 * time.Millisecond)
	}
	ctx, cancel := hurried(ctx)
	defer cancel()
	d := deed{Lock: c.pool.Name(), Kind: fmt.Sprint(opAcquire, " ", n, " ", c.lease), Tag: c.tag()}
	c.do(d, func() string {
		var err error
		switch {
		case n > 1:
			c.holds, err = c.pool.TryAcquireN(ctx, n)
		case wait > 0:
			c.holds, err = c.one(c.pool.TryAcquireFor(ctx, wait))
		default:
			c.holds, err = c.one(c.pool.TryAcquire(ctx))
		}
		switch {
		case err == nil:
			return "done " + strings.Join(kit.HoldIDs(c.holds...), " ")
		case wait > 0 && errors.Is(err, holdfast.ErrBusy):
			return "promised" // to who came before in the session's line, or taken
		}
		return permitOutcome(err)
	})
}

func (c *tenant) one(h *holdfast.Hold, err error) ([]*holdfast.Hold, error) {
	if err != nil {
		return nil, err
	}
	return []*holdfast.Hold{h}, nil
}

// permitOutcome is an outcome. A call that the server refused as late has changed nothing.
func permitOutcome(err error) string {
	if err != nil && strings.Contains(err.Error(), "too late to be executed") {
		return "refused"
	}
	return outcome(err)
}

// something is one operation, on the tenant's own permits or on any.
func (c *tenant) something(ctx context.Context) {
	name := c.pool.Name()
	switch rand.N(10) {
	case 0, 1:
		c.look(deed{Lock: name, Kind: opFree}, nil, func() (any, error) { return c.pool.AvailablePermits(ctx) })
	case 2:
		c.look(deed{Lock: name, Kind: opTaken}, nil, func() (any, error) { return c.pool.AcquiredPermits(ctx) })
	case 3:
		c.trust()
	case 4, 5:
		if len(c.holds) > 0 {
			c.update(ctx, c.holds[0].ID(), 20*time.Millisecond+rand.N(400*time.Millisecond))
		}
	case 6:
		if id := c.heard(ctx); id != "" {
			c.update(ctx, id, 200*time.Millisecond+rand.N(300*time.Millisecond))
		}
	case 7, 8:
		if id := c.heard(ctx); id != "" {
			c.give(id)
		}
	case 9:
		if both := append(kit.HoldIDs(c.holds...), c.heard(ctx)); len(both) == 2 && both[1] != "" && both[0] != both[1] {
			rand.Shuffle(2, func(i, j int) { both[i], both[j] = both[j], both[i] })
			c.give(both...)
		}
	}
}

// give gives permits back by their ids. Whoever holds one in this session is told.
func (c *tenant) give(ids ...string) {
	d := deed{Lock: c.pool.Name(), Kind: opGive, Tag: strings.Join(ids, " ")}
	c.do(d, func() string {
		err := c.pool.Release(context.Background(), ids...)
		for _, h := range c.holds {
			if err == nil && slices.Contains(ids, h.ID()) && h.Err() == nil {
				return "done but held"
			}
		}
		return permitOutcome(err)
	})
}

func (c *tenant) update(ctx context.Context, id string, lease time.Duration) {
	d := deed{Lock: c.pool.Name(), Kind: fmt.Sprint(opUpdate, " ", lease), Tag: id}
	c.do(d, func() string { return permitOutcome(c.pool.UpdateLease(ctx, id, lease)) })
}

// trust asks of a permit whether it is held.
func (c *tenant) trust() {
	if len(c.holds) == 0 {
		return
	}
	h := c.holds[rand.N(len(c.holds))]
	until := lastDeadline([]*holdfast.Hold{h})
	c.do(deed{Lock: c.pool.Name(), Kind: opTrust, Tag: h.ID(), Until: until}, func() string { return outcome(h.Err()) })
}

// tell tells all processes of a permit.
func (c *tenant) tell(ctx context.Context, id string) {
	list := "heard of " + c.pool.Name()
	kit.Must(c.rumours.Do(ctx, c.rumours.B().Lpush().Key(list).Element(id).Build()).Error())
	kit.Must(c.rumours.Do(ctx, c.rumours.B().Ltrim().Key(list).Start(0).Stop(7).Build()).Error())
}

// heard is the id of a permit that somebody has, or had not long ago, "" if there is none.
func (c *tenant) heard(ctx context.Context) string {
	list := "heard of " + c.pool.Name()
	all, err := c.rumours.Do(ctx, c.rumours.B().Lrange().Key(list).Start(0).Stop(-1).Build()).AsStrSlice()
	kit.Must(err)
	if len(all) == 0 {
		return ""
	}
	return all[rand.N(len(all))]
}

// A grant is a permit that somebody has: its id, and the tag of the deed that gave it its present lease.
type grant struct{ id, by string }

// A stray is what an acquisition without a reply may have left: so many permits whose ids nobody knows.
type stray struct {
	tag         string
	taken, left int // left: of its permits, how many have not come back, be they taken or not
}

// A leasing is the state of one semaphore.
type leasing struct {
	grants []grant // in the order of their ids
	strays []stray // in the order of their tags
}

func (s leasing) taken() int {
	n := len(s.grants)
	for _, g := range s.strays {
		n += g.taken
	}
	return n
}

func (s leasing) equal(other leasing) bool {
	return slices.Equal(s.grants, other.grants) && slices.Equal(s.strays, other.strays)
}

func (s leasing) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.grants, id, func(g grant, id string) int { return cmp.Compare(g.id, id) })
}

func (s leasing) has(ids ...string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool {
		_, found := s.find(id)
		return !found
	})
}

// with is s after a permit has got a lease.
func (s leasing) with(id, by string) leasing {
	i, found := s.find(id)
	if s.grants = slices.Clone(s.grants); found {
		s.grants[i].by = by
	} else {
		s.grants = slices.Insert(s.grants, i, grant{id, by})
	}
	return s
}

// without is s after permits have come back.
func (s leasing) without(gone func(grant) bool) leasing {
	s.grants = slices.DeleteFunc(slices.Clone(s.grants), gone)
	return s
}

// strayed is s after an acquisition without a reply.
func (s leasing) strayed(tag string, taken, n int) leasing {
	s.strays = append(slices.Clone(s.strays), stray{tag, taken, n})
	slices.SortFunc(s.strays, func(a, b stray) int { return cmp.Compare(a.tag, b.tag) })
	return s
}

// returned is s after the left-th permit of an acquisition without a reply has come back, if it was taken.
func (s leasing) returned(tag, left string) []leasing {
	i := slices.IndexFunc(s.strays, func(g stray) bool { return g.tag == tag })
	if i < 0 || strconv.Itoa(s.strays[i].left) != left {
		return nil
	}
	s.strays = slices.Clone(s.strays)
	if s.strays[i].left--; s.strays[i].left == 0 {
		s.strays = slices.Delete(s.strays, i, i+1)
	} else {
		s.strays[i].taken = max(0, s.strays[i].taken-1)
	}
	return []leasing{s}
}

// leased is what a semaphore whose permits have leases is said to be.
func leased(permits int) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{leasing{}} },
		Step: func(state, input, _ any) (next []any) {
			for _, s := range afterLeased(state.(leasing), input.(deed), permits) {
				next = append(next, s)
			}
			return next
		},
		Equal:             func(a, b any) bool { return a.(leasing).equal(b.(leasing)) },
		Partition:         perLock,
		DescribeOperation: func(input, _ any) string { return input.(deed).describe() },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}).ToModel()
}

// afterLeased returns the states in which a semaphore may be after a deed, none if the deed cannot have been.
func afterLeased(s leasing, d deed, permits int) []leasing {
	kind, number, _ := strings.Cut(d.Kind, " ")
	out, granted, _ := strings.Cut(d.Out, " ")
	when := func(possible bool, after leasing) []leasing {
		if possible {
			return []leasing{after}
		}
		return nil
	}
	switch kind {
	case opAcquire:
		number, _, _ = strings.Cut(number, " ")
		n, _ := strconv.Atoi(number)
		fits := s.taken()+n <= permits
		switch out {
		case "done":
			next := s
			for id := range strings.FieldsSeq(granted) {
				next = next.with(id, d.Tag)
			}
			return when(fits, next)
		case "busy":
			return when(!fits, s)
		case "unknown":
			return append(when(fits, s.strayed(d.Tag, n, n)), s.strayed(d.Tag, 0, n))
		}
	case opTrust, opDetach: // and the holder was sure to have it
		return when(s.has(d.Tag), s)
	case opGive, opRelease:
		gone := strings.Fields(d.Tag)
		all := s.has(gone...)
		without := s.without(func(g grant) bool { return slices.Contains(gone, g.id) })
		switch d.Out {
		case "done":
			return when(all, without)
		case "done again":
			return []leasing{without}
		case "not held":
			return when(!all, s)
		case "unknown":
			return append(when(all, without), s)
		}
	case opUpdate:
		_, by, _ := strings.Cut(number, " by ")
		has := s.has(d.Tag)
		switch d.Out {
		case "done":
			return when(has, s.with(d.Tag, by))
		case "not held":
			return when(!has, s)
		case "unknown":
			if has {
				return []leasing{s, s.with(d.Tag, by)}
			}
			return []leasing{s}
		}
	case opLapse:
		switch what, rest, _ := strings.Cut(d.Tag, " "); what {
		case "lease":
			return []leasing{s.without(func(g grant) bool { return g.by == rest })}
		case "permit":
			return []leasing{s.without(func(g grant) bool { return g.id == rest })}
		case "stray":
			return s.returned(rest, number)
		}
	case opFree:
		return when(d.Out == strconv.Itoa(permits-s.taken()), s)
	case opTaken:
		return when(d.Out == strconv.Itoa(s.taken()), s)
	}
	return nil
}

// A tracked permit is what is known of one from a whole history.
type tracked struct {
	lock           string
	client         int
	lease          time.Duration // 0: renewed
	granted, taken time.Duration // call and return of the acquisition
	believed       time.Duration // the last moment at which its holder was sure to have it, but for what others did
	cut            time.Duration // the first moment from which somebody else may have taken it from its holder
	shortened      time.Duration // the first end of a lease that another session gave it, which its holder does not know
	trusted        time.Duration // the server has it until then, as the holder has found, but for what others did
	gone           time.Duration // it was given back by then, 0: not for sure
	given          int           // how often it was given back by its id
	released       int           // how often its holder gave it back, and did so in one attempt
	updated        bool
	last           time.Duration // no lease of it that was given by a call ends later
	left           time.Duration // when its holder renewed it for the last time, at the latest; 0: it was given back
}

// A ledger is all that four processes did to permits with leases.
type ledger struct {
	deeds   []deed // complete
	permits map[string]*tracked
	history []porcupine.Operation
}

// permitLedger makes a history of what processes say that they did; killed says of each when it was, 0 for never.
func permitLedger(books []*historybook, killed []time.Duration) *ledger {
	l := &ledger{permits: map[string]*tracked{}}
	for i, b := range books {
		for _, d := range b.deeds {
			if d.Return == 0 { // the end of its process cut it off
				d.Out, d.Return = "unknown", killed[i]
			}
			l.deeds = append(l.deeds, d)
		}
	}
	slices.SortFunc(l.deeds, func(a, b deed) int { return cmp.Compare(a.Call, b.Call) })
	for _, d := range l.deeds {
		switch kind, _, _ := strings.Cut(d.Kind, " "); kind {
		case opAcquire:
			l.acquired(d)
		case opGive, opUpdate:
			l.cut(d)
		}
	}
	for _, d := range l.deeds {
		l.enter(d)
	}
	for _, p := range l.permits {
		if i := p.client / clientsEach; p.left == 0 && killed[i] > 0 {
			p.left = killed[i]
		}
	}
	l.lapses()
	return l
}

// add adds a deed to the history that is checked.
func (l *ledger) add(d deed, from, to time.Duration) {
	o := porcupine.Operation{ClientId: d.Client, Input: d, Call: int64(from), Return: int64(max(from+1, to))}
	l.history = append(l.history, o)
}

// lapse adds that permits come back by themselves between two moments.
func (l *ledger) lapse(lock, what string, from, to time.Duration) {
	l.add(deed{Lock: lock, Kind: opLapse, Tag: what}, from, to)
}

// repeated reports whether a call took long enough to have been sent more than once.
func repeated(d deed) bool { return d.Return-d.Call >= firstPause }

// leaseIn is the lease that a deed gives, 0 for one that is renewed.
func leaseIn(d deed) time.Duration {
	lease, err := time.ParseDuration(d.Kind[strings.LastIndex(d.Kind, " ")+1:])
	if err != nil {
		panic(err)
	}
	return lease
}

// acquired enters an acquisition.
func (l *ledger) acquired(d deed) {
	lease := leaseIn(d)
	length := cmp.Or(lease, kit.WorkerLease)
	out, granted, _ := strings.Cut(d.Out, " ")
	unsure := out == "unknown" || (out == "deadline" || out == "refused") && repeated(d)
	switch {
	case out == "done" || out == "busy":
		l.add(d, d.Call, d.Return)
		for id := range strings.FieldsSeq(granted) {
			l.permits[id] = &tracked{
				lock: d.Lock, client: d.Client, lease: lease, granted: d.Call, taken: d.Return, believed: d.Return,
				cut: 1 << 62, shortened: 1 << 62, trusted: d.Call + length, last: d.Return + length,
			}
		}
	case unsure: // the server may run it until its not-after, and what it takes comes back
		d.Out = "unknown"
		executed := d.Return + length/3 + lapseSlack
		l.add(d, d.Call, executed)
		var n int
		if _, err := fmt.Sscanf(d.Kind, opAcquire+" %d", &n); err != nil {
			panic(err)
		}
		for ; n > 0; n-- {
			back := deed{Lock: d.Lock, Kind: fmt.Sprint(opLapse, " ", n), Tag: "stray " + d.Tag}
			l.add(back, d.Call, executed+length+leaseSlack)
		}
	}
}

// enter enters what is no acquisition.
func (l *ledger) enter(d deed) {
	kind, _, _ := strings.Cut(d.Kind, " ")
	switch kind {
	case opFree, opTaken:
		if d.Out != "nothing" && d.Out != "unknown" {
			l.add(d, d.Call, d.Return)
		}
	case opTrust, opDetach, opRelease:
		l.held(d)
	case opGive:
		l.gave(d)
	case opUpdate:
		l.updated(d)
	}
}

// cut takes in from when on others may have taken permits from their holders, unnoticed so far.
func (l *ledger) cut(d deed) {
	for id := range strings.FieldsSeq(d.Tag) {
		switch p := l.permits[id]; {
		case d.Kind == opGive:
			p.cut = min(p.cut, d.Call)
		case d.Client/clientsEach != p.client/clientsEach: // the holder's own session knows of the new lease
			p.shortened = min(p.shortened, d.Call+leaseIn(d))
			p.cut = min(p.cut, p.shortened)
		}
	}
}

// held enters what a holder did with its hold.
func (l *ledger) held(d deed) {
	p := l.permits[d.Tag]
	if d.Out == "done" || d.Kind == opRelease && d.Out == "unknown" { // it was trusted when it was asked
		p.believed = max(p.believed, d.Call)
	}
	p.trusted = max(p.trusted, d.Until)
	if d.Kind != opRelease && d.Out == "done" && d.Return < p.cut {
		l.add(d, d.Call, d.Return)
	}
	switch {
	case d.Kind == opTrust:
	case d.Kind == opRelease && d.Out == "done" && repeated(d): // an earlier copy, or by then somebody else, has done it
		p.gone = d.Return
		d.Out = "done again"
		l.add(d, d.Call, d.Return)
	case d.Kind == opRelease && d.Out == "done":
		p.gone = d.Return
		p.released++
		l.add(d, d.Call, d.Return)
	case d.Kind == opRelease && d.Out != "lost": // it is repeated in the background
		p.left = d.Return
		l.lapse(d.Lock, "permit "+d.Tag, d.Call, max(d.Return+cmp.Or(p.lease, kit.WorkerLease), p.last)+leaseSlack)
	default: // lost, or left to its lease
		p.left = d.Return
	}
}

// gave enters a release by ids.
func (l *ledger) gave(d deed) {
	for id := range strings.FieldsSeq(d.Tag) {
		p := l.permits[id]
		if d.Out == "done" {
			p.gone = d.Return
			p.given++
		}
	}
	switch d.Out {
	case "unknown":
		ids, until := strings.Fields(d.Tag), d.Return+leaseSlack
		for _, id := range ids { // its own session gives back each for itself, afterwards
			p := l.permits[id]
			if p == nil || d.Client/clientsEach != p.client/clientsEach {
				continue
			}
			later := max(d.Return+cmp.Or(p.lease, kit.WorkerLease), p.last) + leaseSlack
			if len(ids) == 1 {
				until = later
			} else {
				l.lapse(d.Lock, "permit "+id, d.Call, later)
			}
		}
		l.add(d, d.Call, until)
	case "refused":
	default:
		l.add(d, d.Call, d.Return)
	}
}

// updated enters a new lease.
func (l *ledger) updated(d deed) {
	p, lease := l.permits[d.Tag], leaseIn(d)
	until := d.Return
	switch d.Out {
	case "done", "not held":
	case "unknown": // the server may run it until its not-after
		until += leaseSlack
	case "lost": // it was done when the holder had lost the permit, whose session gives it back
		d.Out = "unknown"
	default:
		return
	}
	by := fmt.Sprint("update ", d.Client, ".", d.Serial)
	d.Kind += " by " + by
	l.add(d, d.Call, until)
	if d.Out == "not held" {
		return
	}
	p.updated = true
	p.last = max(p.last, until+lease)
	p.trusted = min(p.trusted, d.Call+lease)
	if p.lease > 0 {
		l.lapse(d.Lock, "lease "+by, d.Call+lease-lapseSlack, until+lease+lapseSlack)
	}
}

// lapses adds when the server takes permits back by itself that nobody has given back before. It knows no other time
// for those that are not renewed than that of their last lease.
func (l *ledger) lapses() {
	for _, d := range l.deeds {
		if !strings.HasPrefix(d.Kind, opAcquire) || !strings.HasPrefix(d.Out, "done ") {
			continue
		}
		early := false
		for _, id := range strings.Fields(d.Out)[1:] {
			p := l.permits[id]
			from := max(min(p.trusted, p.shortened)-lapseSlack, p.taken)
			if p.lease > 0 {
				from = d.Call + p.lease - lapseSlack
			}
			if p.gone > 0 && p.gone <= from {
				continue
			}
			early = true
			switch {
			case p.lease == 0 && p.left > 0:
				l.lapse(p.lock, "permit "+id, from, max(p.left+kit.WorkerLease, p.last)+leaseSlack)
			case p.lease > 0 && p.updated && p.left > 0: // its session may give it back when it is lost there
				l.lapse(p.lock, "permit "+id, p.believed, max(p.left, p.last)+leaseSlack)
			}
		}
		if lease := leaseIn(d); early && lease > 0 {
			l.lapse(d.Lock, "lease "+d.Tag, d.Call+lease-lapseSlack, d.Return+lease+lapseSlack)
		}
	}
}

// crowded returns when more permits of a semaphore were believed to be held at the same time than it has, and how many
// beliefs there were.
func (l *ledger) crowded(permits int) (wrong []string, beliefs int) {
	type edge struct {
		at   time.Duration
		step int
		id   string
	}
	edges := map[string][]edge{}
	for id, p := range l.permits {
		if to := min(p.believed, p.cut); to > p.taken {
			beliefs++
			edges[p.lock] = append(edges[p.lock], edge{p.taken, 1, id}, edge{to, -1, id})
		}
	}
	for lock, all := range edges {
		slices.SortFunc(all, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.step-b.step) })
		held := map[string]bool{}
		for _, e := range all {
			if e.step < 0 {
				delete(held, e.id)
				continue
			}
			if held[e.id] = true; len(held) > permits {
				wrong = append(wrong, fmt.Sprint(lock, " at ", e.at, ": ", slices.Sorted(maps.Keys(held))))
			}
		}
	}
	return wrong, beliefs
}

// twice returns the permits that came back more than once.
func (l *ledger) twice() (wrong []string) {
	for id, p := range l.permits {
		if p.given+p.released > 1 {
			wrong = append(wrong, fmt.Sprint(id, ": ", p.given, " times by its id, ", p.released, " by its holder"))
		}
	}
	return wrong
}

// holdingPermits reports whether the last that was heard of some client is that it has permits.
func (b *historybook) holdingPermits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.last() {
		if strings.HasPrefix(d.Kind, opAcquire) && strings.HasPrefix(d.Out, "done") || d.Kind == opTrust {
			return true
		}
	}
	return false
}

// Four processes take permits with leases, renewed and fixed ones, give back their own and each other's, give them
// other leases, and leave some to theirs, while replies get lost, two of them are stopped for longer than their leases
// and two are killed while they hold. No more permits are ever believed to be held than there are, none comes back
// twice, all that was seen must be explained by leases that end when they should, and in the end every permit is back.
func TestAHistoryOfFourProcessesIsThatOfPermitsWithLeases(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	pools := make([]*semaphore.Expirable, leasedPools)
	for i := range pools {
		pools[i] = semaphore.NewExpirable(s, fmt.Sprint("pool ", i), nil)
		_, err := pools[i].TrySetPermits(t.Context(), leasedPermits)
		require.NoError(t, err)
	}
	var books []*historybook
	var workers []*worker.Worker
	start := func() {
		i := len(books)
		p := proxy.Start(t, srv.Addr())
		scripts, releases := proxy.Command("EVALSHA", "EVAL"), kit.ScriptOf(kit.Kind{Name: "semaphore"}, "release_expirable")
		p.On(func(command []string) bool {
			switch int(time.Now().UnixMilli()/400) % (2 * historians) { // now this one loses everything, then that
			case i % historians:
				return scripts(command)
			case historians + i%historians:
				return releases(command)
			}
			return rand.N(100) == 0 && scripts(command)
		}, proxy.DropReply, proxy.EveryTime)
		p.On(func(command []string) bool { return rand.N(400) == 0 && scripts(command) }, proxy.ResetBefore, proxy.EveryTime)
		books = append(books, &historybook{deeds: map[string]deed{}})
		workers = append(workers, worker.Start(t, books[i].hear, "leaser", p.Addr(), strconv.Itoa(i*clientsEach), srv.Addr()))
	}
	for range historians {
		start()
	}
	killed := make([]time.Duration, historians+2)
	stop := func(i, deeds int) {
		books[i].awaitDeeds(t, deeds)
		kit.Await(t, "permits of the process", func() bool {
			workers[i].Pause()
			kit.SleepUntil(time.Now().Add(20 * time.Millisecond)) // in which it is heard out
			if !books[i].holdingPermits() {
				workers[i].Resume()
				return false
			}
			return true
		})
	}
	for i := range 2 {
		stop(i, deedsEach*(i+1)/6)
		workers[i].Kill()
		killed[i] = worker.Now()
		start()
	}
	stop(2, deedsEach/3)
	stop(3, deedsEach/3)
	kit.SleepUntil(time.Now().Add(kit.WorkerLease * 5 / 4))
	workers[2].Resume()
	workers[3].Resume()
	for _, w := range workers {
		kit.Within(t, time.Minute, w.Ended(), "the end of a history")
	}
	kit.SleepUntil(time.Now().Add(historySettled))
	for _, p := range pools {
		kit.RequirePermits(t, p, leasedPermits, 0)
	}
	var names []string
	for n := range leasedPools {
		names = append(names, fmt.Sprint("heard of pool ", n), fmt.Sprint("pool ", n))
	}
	require.ElementsMatch(t, names, srv.Strs(t, "KEYS", "*"))

	outs, total := map[string]int{}, 0
	for _, b := range books {
		require.Empty(t, b.wrong)
	}
	l := permitLedger(books, killed)
	for _, d := range l.deeds {
		require.NotContains(t, d.Out, "other")
		kind, _, _ := strings.Cut(d.Kind, " ")
		out, _, _ := strings.Cut(d.Out, " ")
		outs[kind+" "+out]++
		if kind != opTrust {
			total++
		}
	}
	wrong, beliefs := l.crowded(leasedPermits)
	t.Log(total, outs, "permits:", len(l.permits), "beliefs:", beliefs)
	require.GreaterOrEqual(t, total, leastDeeds)
	for _, rare := range []string{
		"acquire busy", "acquire unknown", "release unknown", "release lost", "give done", "give not", "give unknown",
		"update done", "update not", "update unknown", "detach done",
	} {
		require.NotZero(t, outs[rare], "no %s", rare)
	}
	require.Empty(t, wrong, "believed to be held at the same time")
	require.Empty(t, l.twice())
	began := time.Now()
	checkHistory(t, leased(leasedPermits), l.history)
	t.Log(len(l.history), "checked in", time.Since(began))
}

// story is what processes of two clients each say, in ms: "client from-to operation: outcome".
func story(lines ...string) (books []*historybook) {
	for range 2 {
		books = append(books, &historybook{deeds: map[string]deed{}})
	}
	for i, line := range lines {
		said, out, _ := strings.Cut(line, ": ")
		words := strings.Fields(said)
		client, _ := strconv.Atoi(words[0])
		from, to, _ := strings.Cut(words[1], "-")
		at := func(ms string) time.Duration {
			n, _ := strconv.Atoi(ms)
			return time.Minute + time.Duration(n)*time.Millisecond
		}
		d := deed{Client: client, Serial: i, Lock: "x", Call: at(from), Return: at(to), Out: out, Kind: words[2]}
		switch d.Kind {
		case opAcquire:
			d.Kind, d.Tag = strings.Join(words[2:], " "), fmt.Sprint(client, ".", i)
		case opUpdate:
			d.Kind, d.Tag = strings.Join(words[2:4], " "), words[4]
		default:
			ids, until, _ := strings.Cut(strings.Join(words[3:], " "), " until ")
			if d.Tag = ids; until != "" {
				d.Until = at(until)
			}
		}
		books[client/clientsEach].deeds[strconv.Itoa(i)] = d
	}
	return books
}

// A checker that finds nothing proves nothing.
func TestTheModelOfLeasesRefuses(t *testing.T) {
	t.Parallel()
	const took, tookShort = "0 0-1 acquire 2 0s: done a b", "0 0-1 acquire 2 200ms: done a b"
	type lines []string
	for _, c := range []struct {
		name  string
		lines lines
		legal bool
	}{
		{"two of two", lines{took, "2 2-3 acquire 1 0s: busy", "2 4-5 free: 0", "2 6-7 taken: 2"}, true},
		{"three of two", lines{took, "2 2-3 acquire 1 0s: done c"}, false},
		{"nobody in the way", lines{"2 2-3 acquire 2 0s: busy"}, false},
		{"one in the way of two", lines{"0 0-1 acquire 1 0s: done a", "2 2-3 acquire 2 0s: busy"}, true},
		{"one after another", lines{took, "0 2-3 release b: done", "2 4-5 acquire 1 0s: done c", "2 6-7 free: 0"}, true},
		{"a wrong count", lines{took, "0 2-3 release b: done", "2 4-5 free: 0"}, false},
		{"another wrong count", lines{took, "0 2-3 release b: done", "2 4-5 taken: 2"}, false},

		{"given back by another", lines{took, "2 2-3 give a b: done", "2 4-5 free: 2", "0 6-7 release a: lost"}, true},
		{"given back twice", lines{took, "2 2-3 give a: done", "3 4-5 give a: done"}, false},
		{"given back and found there", lines{took, "2 2-3 give a: done", "0 4-5 release a: done"}, false},
		{"given back and found there in the end", lines{took, "2 2-3 give a: done", "0 4-15 release a: done"}, true},
		{"given back and not found", lines{took, "2 2-3 give a: done", "3 4-5 give a b: not held", "3 6-7 free: 1"}, true},
		{"half of it given back", lines{took, "2 2-3 give a: done", "3 4-5 give a b: done"}, false},
		{"there but not found", lines{took, "2 2-3 give a: not held", "0 4-5 release a: done"}, false},
		{"given back perhaps", lines{took, "2 2-3 give a: unknown", "2 4-5 free: 1"}, true},
		{"not given back perhaps", lines{took, "2 2-3 give a: unknown", "2 4-5 free: 0"}, true},

		{"before the lease ends", lines{tookShort, "2 190-191 acquire 1 0s: done c"}, false},
		{"after the lease has ended", lines{tookShort, "2 210-211 acquire 2 0s: done c d"}, true},
		{"only one comes back", lines{tookShort, "2 210-211 free: 1"}, false},
		{"in the way after the lease has ended", lines{tookShort, "2 210-211 acquire 1 0s: busy"}, false},
		{"given back after the lease has ended", lines{tookShort, "2 210-211 give a: done"}, false},
		{"prolonged after the lease has ended", lines{tookShort, "2 210-211 update 1s a: done"}, false},
		{"not found before the lease ends", lines{tookShort, "2 190-191 give a: not held"}, false},
		{"not found after the lease has ended", lines{tookShort, "2 210-211 give a: not held"}, true},

		{"prolonged", lines{tookShort, "2 100-101 update 300ms a: done", "2 390-391 free: 1", "2 410-411 free: 2"}, true},
		{"prolonged in vain", lines{tookShort, "2 100-101 update 300ms a: done", "2 210-211 free: 2"}, false},
		{"prolonged for too long", lines{tookShort, "2 100-101 update 300ms a: done", "2 410-411 free: 1"}, false},
		{"shortened", lines{tookShort, "2 100-101 update 20ms a: done", "2 130-131 free: 1", "2 210-211 free: 2"}, true},
		{"shortened in vain", lines{tookShort, "2 100-101 update 20ms a: done", "2 130-131 free: 0"}, false},
		{"shortened, and its holder does not know", lines{
			took, "2 100-101 update 20ms a: done", "0 110-111 trust a until 980: done", "2 140-141 free: 1", "0 500-501 release a: lost",
		}, true},
		{"gone before it was shortened", lines{
			took, "0 20-21 trust a until 980: done", "2 60-61 free: 1", "2 100-101 update 20ms a: done", "0 500-501 release a: lost",
		}, false},
		{"prolonged perhaps", lines{tookShort, "2 100-101 update 300ms a: unknown", "2 210-211 free: 2"}, true},
		{"perhaps prolonged", lines{tookShort, "2 100-101 update 300ms a: unknown", "2 210-211 free: 1"}, true},

		{"a renewed one that has gone", lines{took, "2 3000-3001 free: 1", "0 4000-4001 release a: done"}, false},
		{"a renewed one that is there", lines{took, "2 3000-3001 free: 0", "0 4000-4001 release a: done"}, true},
		{"believed while it is there", lines{tookShort, "0 190-191 trust a: done"}, true},
		{"believed when it has gone", lines{tookShort, "0 210-211 trust a: done"}, false},
		{"left when it has gone", lines{tookShort, "0 210-211 detach a: done"}, false},
		{"taken away and believed in", lines{took, "2 2-3 give a: done", "0 4-5 trust a: done"}, true},
		{"left to its lease", lines{took, "0 500-501 detach a: done", "2 800-801 free: 0", "2 1900-1901 free: 1"}, true},
		{"left, and gone at once", lines{took, "0 500-501 detach a: done", "2 510-511 free: 1"}, false},
		{"left, and there for good", lines{took, "0 500-501 detach a: done", "2 1900-1901 free: 0"}, false},

		{"taken perhaps", lines{"0 0-300 acquire 2 0s: unknown", "2 301-302 acquire 2 0s: busy"}, true},
		{"not taken perhaps", lines{"0 0-300 acquire 2 0s: unknown", "2 301-302 acquire 2 0s: done c d"}, true},
		{"taken by nobody for good", lines{"0 0-300 acquire 2 0s: unknown", "2 3000-3001 acquire 1 0s: busy"}, false},
		{"too many taken perhaps", lines{took, "2 2-3 acquire 1 0s: unknown", "2 4-5 free: -1"}, false},
		{"no answer to a release", lines{took, "0 2-3 release a: unknown", "2 4-5 free: 0", "2 6-7 free: 1"}, true},
		{"no end of it", lines{took, "0 2-3 release a: unknown", "2 3000-3001 free: 0"}, false},
	} {
		l := permitLedger(story(c.lines...), make([]time.Duration, 2))
		require.Equal(t, c.legal, porcupine.CheckOperations(leased(2), l.history), c.name)
	}

	death := time.Minute + 500*time.Millisecond
	for look, legal := range map[string]bool{
		"2 950-951 free: 0": true, "2 950-951 free: 2": false, "2 1900-1901 free: 2": true, "2 1900-1901 free: 1": false,
	} {
		l := permitLedger(story(took, look), []time.Duration{death, 0})
		require.Equal(t, legal, porcupine.CheckOperations(leased(2), l.history), "%s after a death", look)
	}

	others := lines{"0 9-10 trust a: done", "0 9-10 trust b: done", "2 4-5 acquire 1 0s: done c", "2 7-8 release c: done"}
	for given, crowded := range map[string]bool{
		"3 2-3 give a: done": false, "3 6-7 give a: unknown": true, "3 6-7 free: 0": true,
		"0 2-3 update 20ms a: done": true, "2 2-3 update 20ms a: done": true, "2 2-3 update 1ms a: done": false,
	} {
		l := permitLedger(story(append(lines{took, given}, others...)...), make([]time.Duration, 2))
		wrong, beliefs := l.crowded(2)
		require.Equal(t, crowded, len(wrong) > 0, given)
		require.Equal(t, 3, beliefs)
		require.Empty(t, l.twice())
	}
	for given, twice := range map[string]bool{
		"2 4-5 give a b: done": true, "2 4-5 give b: done": false, "2 4-5 give a b: not held": false,
		"2 4-5 give a: unknown": false, "0 4-5 release a: done": true, "0 4-15 release a: done": false,
	} {
		l := permitLedger(story(took, "3 2-3 give a: done", given), make([]time.Duration, 2))
		require.Equal(t, twice, len(l.twice()) > 0, given)
	}
}
