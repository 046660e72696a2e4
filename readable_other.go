//go:build !unix

package holdfast

import "net"

// readable is not known here.
func readable(net.Conn) bool { return false }
