// Package board is memory that the processes of a measurement share. So counting, and checking that nobody holds a
// lock beside another, costs no call, and the counts of a killed process stay.
package board

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Board is mapped by every process; tests/peers/Peer.java knows its layout, too.
type Board struct {
	Open    atomic.Int64 // who may go on, and how: the measurement decides
	Holders atomic.Int64
	Crowds  atomic.Int64 // how often there were too many holders
	_       [5]int64
	Places  [1000]Place // one for each goroutine
}

// A Place fills a cache line, so that goroutines do not slow each other down.
type Place struct {
	Asked, Taken    atomic.Int64
	Holders, Crowds atomic.Int64 // of the name of this place, where each has one
	_               [4]int64
}

// Open maps the board that is a file; the first one makes it.
func Open(path string) (*Board, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	const size = int(unsafe.Sizeof(Board{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	shared, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*Board)(unsafe.Pointer(&shared[0])), nil
}

// Fairness returns Jain's index of counts, which is 1 if they are equal, and the least share, relative to a fair one.
func Fairness(counts []int64) (jain, least float64) {
	var sum, squares float64
	low := counts[0]
	for _, n := range counts {
		sum, squares, low = sum+float64(n), squares+float64(n)*float64(n), min(low, n)
	}
	all := float64(len(counts))
	return sum * sum / squares / all, float64(low) / sum * all
}
