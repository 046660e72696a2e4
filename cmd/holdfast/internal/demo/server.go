package demo

import "github.com/holdfast-go/holdfast/internal/embedded"

// startServers starts n embedded servers. Close them, also after an error.
func startServers(n int) (servers []*embedded.Server, err error) {
	for range n {
		s, err := embedded.Start()
		if err != nil {
			return servers, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func closeServers(servers []*embedded.Server) {
	for _, s := range servers {
		s.Close()
	}
}

func urlsOf(servers []*embedded.Server) (urls []string) {
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	return urls
}
