// Package lease is the arithmetic of leases: until when a hold may be trusted, when it is
// renewed, and which renewals travel together. It talks to no server.
package lease

import (
	"math"
	"strconv"
	"time"
)

// Min is the shortest lease of a hold that is not renewed.
const Min = 10 * time.Millisecond

// Look is the lease, as scripts take it, of a renewal that extends nothing: it reports who has what. No lease is as
// short.
const Look = "1"

// Margin is how much earlier than the server a holder stops trusting its lease: 1 % for
// clocks that run at different speeds, and up to 50 ms for the timers that tell the others.
func Margin(lease time.Duration) time.Duration {
	return lease/100 + min(lease/40, 50*time.Millisecond)
}

// Trust returns the moment until which a lease is trusted that was granted by a call sent at
// sent: counted from the sending, so that a slow reply never stretches it (guarantee G1).
// Both moments are counted from the same base; the latest possible moment stands for all
// that would be later.
func Trust(sent, lease time.Duration) time.Duration {
	return Add(sent, lease-Margin(lease))
}

// For returns the shortest lease that is trusted for d: what is left of one when [Margin] is taken from it.
func For(d time.Duration) time.Duration {
	return Add(d, min(d/193*7+7, d/99+50505052)) // 3.5 % of the lease, or 1 % and 50 ms, rounded up
}

// Add adds a duration to a moment, and stops at the largest.
func Add(moment, d time.Duration) time.Duration {
	if moment > 0 && d > math.MaxInt64-moment {
		return math.MaxInt64
	}
	return moment + d
}

// Grant is for how long a release grants a lock to a waiter that holds it with a lease: a waiter that is frozen or cut
// off when its turn comes delays the others by less than 10 s. It is a multiple of 10 ms, as a fair lock's queue has
// it.
func Grant(lease time.Duration) time.Duration {
	return min(lease, 9500*time.Millisecond).Truncate(10 * time.Millisecond)
}

// NotAfter is how long after it was sent an acquisition may still be executed (G2): no caller waits
// for long for a reply that does not come, however long the lease.
func NotAfter(lease time.Duration) time.Duration { return min(lease/3, time.Minute) }

// Bound is how long a release may take before its caller learns that the outcome is unknown.
func Bound(lease time.Duration) time.Duration { return min(lease/3, 5*time.Second) }

// Lasting returns the rest of a lease, which scripts give in ms. The longest one stands for all that would be longer:
// it is, too, when [Millis] has rounded it up.
func Lasting(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// Millis is a lease as scripts take it: whole ms, fractions rounded up.
func Millis(lease time.Duration) string {
	ms := lease / time.Millisecond
	if lease%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(int64(ms), 10)
}
