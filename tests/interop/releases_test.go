package interop_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/interop"
)

// Releases of Redisson beside the one of all other tests.
const (
	firstOf4 = "4.0.0"
	lastOf3  = "3.52.0"
	// lastSoundReads is the last 3.x that renews read locks as it should: see TestRedissonRenewsReadsWrongly.
	lastSoundReads = "3.43.0"
)

// The columns of the table of releases.
var releaseColumns = []string{firstOf4, "newest 3.x"}

// withReleases is what this run has shown of other releases of Redisson.
var withReleases = func() *interop.Matrix {
	var rows []string
	for _, c := range everyKind() {
		rows = append(rows, c.name)
	}
	m := interop.NewMatrix(rows, releaseColumns)
	for _, c := range everyKind() {
		for _, column := range releaseColumns {
			if reason := missingIn(c.kind); reason != "" {
				m.Except(c.name, column, reason)
			}
		}
		if c.kind.half {
			m.Remark(c.name, releaseColumns[1], lastSoundReads+", as later ones renew read locks wrongly; all others: "+lastOf3)
		}
	}
	return m
}()

// everyKind are both directions of everything.
func everyKind() []cell {
	return cells(slices.Concat(kinds, fairKinds, halves, severalKinds, []kind{semaphores, expirables, latches})...)
}

// missingIn says why releases before 4.4.0 do not have a kind.
func missingIn(k kind) string {
	if k.nonReentrant {
		return "came with 4.4.0: the call fails with NoSuchMethodError"
	}
	return ""
}

// Older releases of Redisson share each kind with Go: what one side has taken the other cannot take, and is woken when
// it is released.
func TestReleases(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		column, release string
		cells           []cell
	}{
		{releaseColumns[0], firstOf4, everyKind()},
		{releaseColumns[1], lastOf3, slices.DeleteFunc(everyKind(), func(c cell) bool { return c.kind.half })},
		{releaseColumns[1], lastSoundReads, cells(halves...)},
	} {
		t.Run(r.release, func(t *testing.T) {
			jvm := sharedRelease(t, r.release)
			require.Equal(t, "redisson-"+r.release+".jar", jvm.Redisson(t))
			s := aloneWith(t, jvm)
			for _, c := range r.cells {
				t.Run(c.name, func(t *testing.T) {
					f := s.fleetFor(c.kind, fleetOptions{})
					if missingIn(c.kind) != "" {
						requireMissing(t, f, c.kind)
						return
					}
					t.Cleanup(func() { withReleases.Record(c.name, r.column, !t.Failed()) })
					requireShared(t, f, c, unique("x"))
				})
			}
			t.Run("names of entries", func(t *testing.T) { requireNamesOfAllKeys(t, s) })
		})
	}
}

// requireMissing wants Redisson not to have a kind.
func requireMissing(t *testing.T, f *fleet, k kind) {
	t.Helper()
	var failure *interop.JavaError
	require.ErrorAs(t, java.owner(t, f, k, "x").(*javaOwner).object.Try(t, "lock").Err, &failure)
	require.Equal(t, "NoSuchMethodError", failure.Class)
}

// From 3.44.0 to 3.52.0 Redisson renews the holds of one of several read locks only. The next reader who goes, here one
// of Go, takes the others along, as nothing says that somebody still reads.
func TestRedissonRenewsReadsWrongly(t *testing.T) {
	t.Parallel()
	for release, wrongly := range map[string]bool{lastSoundReads: false, lastOf3: true, firstOf4: false} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			f := aloneWith(t, sharedRelease(t, release)).fleet(fleetOptions{lease: shortLease})
			locks := []string{"x", "y"}
			for _, name := range locks {
				java.owner(t, f, reading, name).lock(t)
			}
			require.False(t, golang.owner(t, f, writing, "x").tryLock(t, beyondLease))
			lost := 0
			for _, name := range locks {
				passer, w := golang.owner(t, f, reading, name), golang.owner(t, f, writing, name)
				requireBusy(t, w)
				passer.lock(t)
				passer.unlock(t)
				if w.tryLock(t, 0) {
					lost++
				}
			}
			require.Equal(t, wrongly, lost > 0, lost)
		})
	}
}

// These releases do not renew a read hold either while somebody else, here Go, has one that is nested.
func TestRedissonRenewsReadsWronglyBesideNestedOnes(t *testing.T) {
	t.Parallel()
	for release, wrongly := range map[string]bool{lastSoundReads: false, lastOf3: true, firstOf4: false} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			f := aloneWith(t, sharedRelease(t, release)).fleet(fleetOptions{lease: shortLease})
			nested, w := golang.owner(t, f, reading, "x"), golang.owner(t, f, writing, "x")
			nested.lock(t)
			nested.lock(t)
			java.owner(t, f, reading, "x").lock(t)
			require.False(t, w.tryLock(t, beyondLease))
			nested.unlock(t)
			nested.unlock(t)
			require.Equal(t, wrongly, w.tryLock(t, 0))
		})
	}
}
