package history

import (
	"cmp"
	"fmt"
	"slices"
)

// The halves of a read-write lock.
const (
	halfRead  = "read"
	halfWrite = "write"
)

// A share is what one grant has of a read-write lock.
type share struct {
	tag           string
	writes, reads int
}

// A sharing is the state of one read-write lock: who has which part of it. Calls with an unknown outcome, lost holds
// and killed processes leave parts that belong to nobody. Such a leftover may end at any time, and several of the
// same half cannot be told apart, so it only matters whether there may be one.
type sharing struct {
	shares    []share // in the order of their tags
	lateWrite bool    // a write hold may be left that nobody believes in
	lateRead  bool
}

// of returns what a grant has.
func (s sharing) of(tag string) share {
	if i, ok := s.find(tag); ok {
		return s.shares[i]
	}
	return share{tag: tag}
}

func (s sharing) find(tag string) (int, bool) {
	return slices.BinarySearchFunc(s.shares, tag, func(h share, tag string) int { return cmp.Compare(h.tag, tag) })
}

// with returns s after a grant's share has become h.
func (s sharing) with(h share) sharing {
	i, found := s.find(h.tag)
	s.shares = slices.Clone(s.shares)
	if found {
		s.shares = slices.Delete(s.shares, i, i+1)
	}
	if h.writes+h.reads > 0 {
		s.shares = slices.Insert(s.shares, i, h)
	}
	return s
}

// left returns s with a leftover of a half.
func (s sharing) left(half string) sharing {
	s.lateWrite = s.lateWrite || half == halfWrite
	s.lateRead = s.lateRead || half == halfRead
	return s
}

// written reports whether anybody but one grant writes.
func (s sharing) written(but string) bool {
	return slices.ContainsFunc(s.shares, func(h share) bool { return h.writes > 0 && h.tag != but })
}

func (s sharing) read() bool {
	return slices.ContainsFunc(s.shares, func(h share) bool { return h.reads > 0 })
}

func (s sharing) free() bool { return len(s.shares) == 0 }

// readWriteLock is the specification of the read-write lock: many readers or one writer, which may read as well and
// then give up writing.
var readWriteLock = modelOf(sharing{}, func(s sharing, d deed) []sharing {
	if d.Java {
		return afterJavasShare(s, d)
	}
	if next, ok := afterShared(s, d); ok {
		return []sharing{next}
	}
	return nil
}, func(a, b sharing) bool {
	return a.lateWrite == b.lateWrite && a.lateRead == b.lateRead && slices.Equal(a.shares, b.shares)
})

// afterShared returns the state of a lock after a deed, and whether the deed was possible.
func afterShared(s sharing, d deed) (sharing, bool) {
	mine := s.of(d.Tag)
	has := mine.has(d.Half)
	switch d.Kind + " " + d.Out {
	case "re-enter deadline", "re-enter not held", "re-enter lost":
		// as in afterDeed, for the hold under whose context it was tried
		return s, true
	case "release lost": // as in afterDeed
		if has > 1 {
			s = s.with(mine.plus(d.Half, -1))
		}
		return s, true
	case "release done":
		return s.with(mine.plus(d.Half, -1)), has > 0
	case "release unknown":
		if has == 0 {
			return s, true
		}
		s = s.with(mine.plus(d.Half, -1))
		if has == 1 {
			s = s.left(d.Half)
		}
		return s, true
	case "orphan ":
		if has == 0 {
			return s, true
		}
		return s.with(mine.plus(d.Half, -has)).left(d.Half), true
	case "locked true", "locked false":
		return s.seen(d)
	}
	switch d.Kind {
	case opCount:
		return s, fmt.Sprint(has) == d.Out
	case opTake, opReenter:
		if d.Half == halfWrite {
			return s.afterWrite(d, mine)
		}
		return s.afterRead(d, mine)
	}
	return s, false
}

func (h share) has(half string) int {
	if half == halfWrite {
		return h.writes
	}
	return h.reads
}

// plus returns h with n more holds of a half.
func (h share) plus(half string, n int) share {
	if half == halfWrite {
		h.writes += n
	} else {
		h.reads += n
	}
	return h
}

// seen returns the state after somebody has seen whether a half is held.
func (s sharing) seen(d deed) (sharing, bool) {
	late, sure := &s.lateRead, s.read()
	if d.Half == halfWrite {
		late, sure = &s.lateWrite, s.written("")
	}
	if d.Out == "true" {
		return s, sure || *late || d.Strays
	}
	*late = false
	return s, !sure
}

// afterWrite returns the state after a grant has asked for the write half.
func (s sharing) afterWrite(d deed, mine share) (sharing, bool) {
	switch d.Kind + " " + d.Out {
	case "take done":
		return sharing{shares: []share{{tag: d.Tag, writes: 1}}}, s.free()
	case "take busy":
		return s, !s.free() || s.lateWrite || s.lateRead || d.Strays
	case "re-enter done":
		return s.with(mine.plus(halfWrite, 1)), mine.writes > 0
	case "re-enter already held":
		return s, mine.reads > 0
	}
	return s, false
}

// afterRead returns the state after a grant has asked for the read half.
func (s sharing) afterRead(d deed, mine share) (sharing, bool) {
	switch d.Kind + " " + d.Out {
	case "take done":
		s.lateWrite = false
		return s.with(mine.plus(halfRead, 1)), !s.written("")
	case "take busy":
		return s, s.written("") || s.lateWrite || d.Strays
	case "re-enter done":
		return s.with(mine.plus(halfRead, 1)), mine.writes+mine.reads > 0
	case "re-enter unknown":
		if mine.writes > 0 && mine.reads == 0 {
			s = s.left(halfRead) // it lives on when the write half is released
		}
		return s, true
	}
	return s, false
}
