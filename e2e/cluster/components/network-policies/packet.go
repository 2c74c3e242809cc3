package main

import (
	"encoding/binary"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// packet is what policies ask about one.
type packet struct {
	from, to netip.Addr
	protocol corev1.Protocol // empty: one that policies do not know, such as ICMP
	port     int
}

var errNoPacket = errors.New("not the beginning of an IPv4 packet")

var protocols = map[byte]corev1.Protocol{6: corev1.ProtocolTCP, 17: corev1.ProtocolUDP, 132: corev1.ProtocolSCTP}

// parse reads the head of an IPv4 packet.
func parse(head []byte) (packet, error) {
	const shortest = 20
	if len(head) < shortest || head[0]>>4 != 4 {
		return packet{}, errNoPacket
	}
	length := int(head[0]&0xf) * 4
	read := packet{
		from: netip.AddrFrom4([4]byte(head[12:16])), to: netip.AddrFrom4([4]byte(head[16:20])), protocol: protocols[head[9]],
	}
	if read.protocol == "" {
		return read, nil
	}
	if length < shortest || len(head) < length+4 {
		return packet{}, errNoPacket
	}
	read.port = int(binary.BigEndian.Uint16(head[length+2:]))
	return read, nil
}
