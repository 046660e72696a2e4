//go:build !linux && !darwin && !freebsd && !openbsd && !dragonfly

package fleet

import "time"

// Uptime is a clock that all processes of a machine share.
func Uptime() time.Duration { return time.Duration(time.Now().UnixNano()) }
