package multilock

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
)

// same reports whether two members would exclude each other, as far as can be seen here.
func same(a, b holdfast.Locker) bool {
	x, y := core.LockOf(a), core.LockOf(b)
	if x != nil && y != nil {
		return x.Same(y)
	}
	return reflect.ValueOf(a).Comparable() && a == b
}

// sessionOf is the session of a lock, a RedLock's first one; nil if the lock is none of this toolkit's.
func sessionOf(l holdfast.Locker) *session.Session {
	if r, ok := l.(*RedLock); ok {
		return r.quorum.Session()
	}
	if lock := core.LockOf(l); lock != nil {
		return lock.Session()
	}
	return nil
}

// isNil reports whether there is no lock at all.
func isNil(l holdfast.Locker) bool {
	v := reflect.ValueOf(l)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// mistake is what is wrong with a lock's name or options, as far as can be seen here.
func mistake(l holdfast.Locker) (err error) {
	if r, ok := l.(*RedLock); ok {
		err = r.quorum.Wrong()
	} else if lock := core.LockOf(l); lock != nil {
		err = wrong(lock)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock %.256q: %w", l.Name(), err)
}

// wrong is what keeps a lock from being one of several.
func wrong(l *core.Lock) error {
	if err := l.Wrong(); err != nil {
		return err
	}
	if l.Wires.Reused {
		return errors.New("Options.Token is set, must not be: " +
			"what an attempt that fails has taken could not be given back")
	}
	return nil
}

// key is what the server knows a lock by, which is the same for everybody.
func key(l holdfast.Locker) string {
	if l := core.LockOf(l); l != nil {
		return l.Key()
	}
	return l.Name()
}

// beginning is where a round begins that is to wait for a member: there, or at the write half of the same lock, since a
// reader cannot write.
func (m *MultiLock) beginning(missing int) int {
	l := core.LockOf(m.members[missing])
	if l == nil {
		return missing
	}
	return slices.IndexFunc(m.members, func(other holdfast.Locker) bool {
		o := core.LockOf(other)
		return o != nil && o.Session() == l.Session() && o.Key() == l.Key()
	})
}

// order is that in which locks are taken. Of a read-write lock the write half comes first: a reader cannot
// write.
func order(a, b holdfast.Locker) int {
	if byKey := strings.Compare(key(a), key(b)); byKey != 0 {
		return byKey
	}
	x, y := core.LockOf(a), core.LockOf(b)
	switch {
	case x == nil || y == nil || x.Shared == y.Shared:
		return 0
	case y.Shared:
		return -1
	}
	return 1
}
