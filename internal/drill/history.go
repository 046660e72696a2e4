package drill

import (
	"cmp"
	"slices"
	"time"
)

// A Belief is a hold as its process saw it. All times are of one clock, which the processes share.
type Belief struct {
	Lock    int // its number
	Process int
	From    time.Duration // when the call that took it returned
	To      time.Duration // when it began to release it, or was told that it is lost
	Told    time.Duration // when it was told that it is lost, or may be; 0 if it was not
	Token   int64         // 0: the lock gives none
}

// An Event is what a process tells: a hold that is over, or a call that has failed, or both.
type Event struct {
	Belief *Belief `json:",omitempty"`
	Error  string  `json:",omitempty"`
	Lost   bool    `json:",omitempty"` // the error says that the hold was lost
}

// A History is what happened to the locks between two moments.
type History struct {
	Locks      []Lock
	Begin, End time.Duration
	When       func(time.Duration) time.Time // what the clock of the processes showed to people
	Beliefs    []Belief

	lost   []Loss
	failed []*Failure
}

// Take records what a process told at that time.
func (h *History) Take(e Event, at time.Time) {
	b := e.Belief
	if b != nil {
		h.Beliefs = append(h.Beliefs, *b)
	}
	switch {
	case e.Lost && b != nil:
		l := Loss{h.Locks[b.Lock].Label, b.Process, h.When(b.Told), (b.To - b.From).Milliseconds(), e.Error}
		h.lost = append(h.lost, l)
	case e.Error != "":
		i := slices.IndexFunc(h.failed, func(f *Failure) bool { return f.Error == e.Error })
		if i < 0 {
			i = len(h.failed)
			h.failed = append(h.failed, &Failure{Error: e.Error, First: at})
		}
		h.failed[i].Calls++
		h.failed[i].Last = at
	}
}

// A Report is what has been found. Its JSON is part of the interface of the command holdfast.
type Report struct {
	Taken         int        `json:"taken"`          // holds
	UnavailableMS int64      `json:"unavailable_ms"` // in all, for any lock
	LongestMS     int64      `json:"longest_ms"`
	Outages       []Outage   `json:"outages"`
	Failed        []*Failure `json:"failed_calls"`
	Lost          []Loss     `json:"lost"`
	Seconds       []Second   `json:"second_holders"`
	Untold        int        `json:"untold"` // second holders of whom the first was not told within the lease
	Returns       []Return   `json:"tokens_back"`
}

// An Outage is a time in which nobody took some locks that had room.
type Outage struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	MS    int64     `json:"ms"`
	Locks []string  `json:"locks"`
}

// A Failure is calls that failed alike.
type Failure struct {
	Error string    `json:"error"`
	Calls int       `json:"calls"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// A Loss is a hold that was lost.
type Loss struct {
	Lock    string    `json:"lock"`
	Process int       `json:"process"`
	Told    time.Time `json:"told"`
	HeldMS  int64     `json:"held_ms"`
	Error   string    `json:"error"`
}

// A Second is a hold that was granted while others had all the room there is.
type Second struct {
	Lock       string    `json:"lock"`
	Process    int       `json:"process"`
	Got        time.Time `json:"got"`
	First      int       `json:"first_process"` // one of the others: the one that was told first, if one was
	TogetherMS int64     `json:"together_ms"`   // how long all of them believed to have it
	ToldMS     *int64    `json:"told_after_ms"` // null: the first was not told
	InTime     bool      `json:"in_time"`       // it was told within the lease
}

// A Return is a token that is not higher than an earlier one of the lock.
type Return struct {
	Lock   string    `json:"lock"`
	Got    time.Time `json:"got"`
	Token  int64     `json:"token"`
	Before int64     `json:"before"` // the highest one of those
}

// Report judges the history. A time without a lock taken is an outage from that length on.
func (h *History) Report(outage, lease time.Duration) *Report {
	r := &Report{
		Taken: len(h.Beliefs), Outages: []Outage{}, Failed: append([]*Failure{}, h.failed...),
		Lost: append([]Loss{}, h.lost...), Seconds: []Second{}, Returns: []Return{},
	}
	slices.SortStableFunc(h.Beliefs, func(a, b Belief) int { return cmp.Compare(a.From, b.From) })
	var outages []Outage
	for i, l := range h.Locks {
		outages = append(outages, h.judge(r, i, l, outage, lease)...)
	}
	slices.SortStableFunc(outages, func(a, b Outage) int { return a.From.Compare(b.From) })
	slices.SortStableFunc(r.Seconds, func(a, b Second) int { return a.Got.Compare(b.Got) })
	slices.SortStableFunc(r.Returns, func(a, b Return) int { return a.Got.Compare(b.Got) })
	var over time.Time // when those so far were over
	for _, o := range joined(outages, outage) {
		o.MS = o.To.Sub(o.From).Milliseconds()
		r.LongestMS = max(r.LongestMS, o.MS)
		if o.To.After(over) {
			r.UnavailableMS += min(o.MS, o.To.Sub(over).Milliseconds())
			over = o.To
		}
		r.Outages = append(r.Outages, *o)
	}
	return r
}

// judge adds to the report what has happened to one lock, and returns its outages.
func (h *History) judge(r *Report, lock int, l Lock, outage, lease time.Duration) (outages []Outage) {
	var beside []Belief // who has it at the moment
	free, highest := h.Begin, int64(0)
	gap := func(to time.Duration) { // since there was room
		if !l.Long && to-free >= outage {
			outages = append(outages, Outage{From: h.When(free), To: h.When(to), Locks: []string{l.Label}})
		}
	}
	for _, b := range h.Beliefs {
		if b.Lock != lock {
			continue
		}
		gap(b.From)
		beside = slices.DeleteFunc(beside, func(other Belief) bool { return other.To <= b.From })
		if len(beside) >= l.room() {
			s := h.second(l, b, beside, lease)
			if !s.InTime {
				r.Untold++
			}
			r.Seconds = append(r.Seconds, s)
		}
		if b.Token > 0 && b.Token <= highest {
			r.Returns = append(r.Returns, Return{l.Label, h.When(b.From), b.Token, highest})
			highest = 0 // the next ones go on from here
		}
		highest = max(highest, b.Token)
		beside, free = append(beside, b), b.From
		if len(beside) >= l.room() {
			free = slices.MinFunc(beside, func(a, b Belief) int { return cmp.Compare(a.To, b.To) }).To
		}
	}
	gap(h.End)
	return outages
}

// second is what is told of a hold that was granted beside others.
func (h *History) second(l Lock, b Belief, beside []Belief, lease time.Duration) Second {
	first, end := beside[0], b.To
	for _, other := range beside {
		end = min(end, other.To)
		if other.Told > 0 && (first.Told == 0 || other.Told < first.Told) {
			first = other
		}
	}
	s := Second{
		Lock: l.Label, Process: b.Process, Got: h.When(b.From), First: first.Process,
		TogetherMS: (end - b.From).Milliseconds(),
	}
	if first.Told > 0 {
		after := (first.Told - b.From).Milliseconds()
		s.ToldMS, s.InTime = &after, first.Told-b.From <= lease
	}
	return s
}

// joined makes outages of several locks one if they begin and end within that time of each other.
func joined(all []Outage, within time.Duration) (one []*Outage) {
	for _, o := range all {
		i := slices.IndexFunc(one, func(other *Outage) bool {
			return o.From.Sub(other.From).Abs() < within && o.To.Sub(other.To).Abs() < within &&
				!slices.Contains(other.Locks, o.Locks[0])
		})
		if i < 0 {
			one = append(one, &o)
			continue
		}
		same := one[i]
		same.Locks = append(same.Locks, o.Locks...)
		if o.To.After(same.To) {
			same.To = o.To
		}
	}
	return one
}
