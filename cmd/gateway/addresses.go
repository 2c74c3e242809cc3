package main

import (
	"fmt"
	"net"
)

// addresses are those of the pod.
func addresses() ([]string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this pod: %w", err)
	}
	var found []string
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok && !network.IP.IsLoopback() {
			found = append(found, network.IP.String())
		}
	}
	return found, nil
}
