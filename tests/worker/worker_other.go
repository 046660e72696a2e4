//go:build !linux

package worker

import "time"

// Now is the wall clock: the one that all processes of the machine share everywhere.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }
