-- Wireshark dissectors for this project's formats: the MHD shim after the UDP header, its reflection block, the TCP
-- option, and HPCC's hop records in captures of the simulator. The layouts are documented in
-- crates/core/wire/src/{shim,reflection,tcp_option,hpcc_ns3}.rs.
--
--   tshark -X lua_script:tools/wireshark/poseidon.lua -r capture.pcap -Y poseidon
--
-- Preferences (-o name:value, or Preferences > Protocols > POSEIDON):
--   poseidon.udp_port    UDP destination port of packets with the shim               65053
--   poseidon.step_log2   one step of a delay code is 2^n ns                          8 (256 ns)
--   poseidon.reflection  the payload after the shim starts with a reflection block   FALSE
--   poseidon.payload     dissector for the payload                                   data
--   poseidon.kind        TCP option kind (RFC 6994)                                  253
--   poseidon.exid        TCP option experiment identifier                            20563 (0x5053)
--   poseidon.hpcc_port   TCP port of segments with HPCC's hop records                65053

local shim = Proto("poseidon", "Poseidon in-band telemetry")

shim.prefs.udp_port = Pref.uint("UDP port", 65053, "Packets to this port contain the shim")
shim.prefs.step_log2 = Pref.uint("Delay step (log2 ns)", 8, "One step of a delay code is 2^n ns")
shim.prefs.reflection = Pref.bool("Reflection block", false, "The payload starts with a reflection block")
shim.prefs.payload = Pref.string("Payload dissector", "data", "Dissector for the payload")
shim.prefs.kind = Pref.uint("TCP option kind", 253, "Kind of the TCP option")
shim.prefs.exid = Pref.uint("TCP experiment identifier", 0x5053, "Identifier of the TCP option")
shim.prefs.hpcc_port = Pref.uint("TCP port of hop records", 65053, "Segments from or to this port start with hop records")

local yes_no = { "yes", "no" }
local f = {
    version = ProtoField.uint8("poseidon.version", "Version", base.DEC, nil, 0xf0),
    incomplete = ProtoField.bool("poseidon.incomplete", "A hop could not measure its delay", 8, yes_no, 0x08),
    frozen = ProtoField.bool("poseidon.frozen", "Do not update", 8, yes_no, 0x04),
    coverage = ProtoField.bool("poseidon.wants_coverage", "Path coverage requested", 8, yes_no, 0x02),
    int_hops = ProtoField.uint8("poseidon.int_hops", "Hops that measured a delay", base.DEC),
    code = ProtoField.uint16("poseidon.max_hop_delay", "Largest hop delay, code", base.DEC),
    delay = ProtoField.uint64("poseidon.max_hop_delay_ns", "Largest hop delay, ns", base.DEC),
    r_seen = ProtoField.uint8("poseidon.reflection.hops_seen", "Hops on the path", base.DEC, nil, 0xf0),
    r_hops = ProtoField.uint8("poseidon.reflection.int_hops", "Hops that measured a delay", base.DEC, nil, 0x0f),
    r_code = ProtoField.uint16("poseidon.reflection.max_hop_delay", "Largest hop delay, code", base.DEC),
    r_delay = ProtoField.uint64("poseidon.reflection.max_hop_delay_ns", "Largest hop delay, ns", base.DEC),
    t_code = ProtoField.uint16("poseidon.tcp.max_hop_delay", "Largest hop delay, code", base.DEC),
    t_delay = ProtoField.uint64("poseidon.tcp.max_hop_delay_ns", "Largest hop delay, ns", base.DEC),
    t_echo = ProtoField.uint16("poseidon.tcp.echo", "Echoed delay, code", base.DEC),
    t_echo_delay = ProtoField.uint64("poseidon.tcp.echo_ns", "Echoed delay, ns", base.DEC),
    h_count = ProtoField.uint16("poseidon.hpcc.hops", "Hops that wrote a record", base.DEC),
    h_rate = ProtoField.uint8("poseidon.hpcc.rate", "Line rate, code", base.DEC),
    h_time = ProtoField.uint32("poseidon.hpcc.time_ns", "Time, ns (24 bits)", base.DEC),
    h_sent = ProtoField.uint32("poseidon.hpcc.sent_bytes", "Bytes sent (20 bits, steps of 128 B)", base.DEC),
    h_queue = ProtoField.uint32("poseidon.hpcc.queue_bytes", "Queue, bytes (steps of 80 B)", base.DEC),
}
local fields = {}
for _, field in pairs(f) do
    fields[#fields + 1] = field
end
shim.fields = fields

local warn, note = expert.severity.WARN, expert.severity.NOTE
local bad_version = ProtoExpert.new("poseidon.bad_version", "The version is not 1", expert.group.PROTOCOL, warn)
local saturated = ProtoExpert.new("poseidon.saturated", "The delay is saturated", expert.group.SEQUENCE, note)
shim.experts = { bad_version, saturated }

local VERSION = 1
local NO_ECHO = 0xffff

-- Adds the delay code and a generated field that contains the delay in ns.
local function add_delay(tree, code_field, delay_field, range, max_code)
    local code = range:uint()
    tree:add(code_field, range)
    local item = tree:add(delay_field, range, UInt64(code):lshift(shim.prefs.step_log2)):set_generated()
    if code >= max_code then
        item:add_proto_expert_info(saturated)
    end
end

local function add_flags(tree, range)
    local item = tree:add(f.version, range)
    if bit.rshift(range:uint(), 4) ~= VERSION then
        item:add_proto_expert_info(bad_version)
    end
    tree:add(f.incomplete, range)
    tree:add(f.frozen, range)
    tree:add(f.coverage, range)
end

function shim.dissector(buffer, pinfo, root)
    -- Dissect only version 1 packets sent to the configured port. Anything else is payload.
    if buffer:len() < 4 or pinfo.dst_port ~= shim.prefs.udp_port or bit.rshift(buffer(0, 1):uint(), 4) ~= VERSION then
        return 0
    end
    local tree = root:add(shim, buffer(0, 4), "Poseidon shim")
    add_flags(tree, buffer(0, 1))
    tree:add(f.int_hops, buffer(1, 1))
    add_delay(tree, f.code, f.delay, buffer(2, 2), 0xffff)
    local offset = 4
    if shim.prefs.reflection and buffer:len() >= 8 then
        local block = root:add(shim, buffer(4, 4), "Poseidon reflection")
        add_flags(block, buffer(4, 1))
        block:add(f.r_seen, buffer(5, 1))
        block:add(f.r_hops, buffer(5, 1))
        add_delay(block, f.r_code, f.r_delay, buffer(6, 2), 0xffff)
        offset = 8
    end
    if buffer:len() > offset then
        local payload = Dissector.get(shim.prefs.payload) or Dissector.get("data")
        payload:call(buffer(offset):tvb(), pinfo, root)
    end
    return buffer:len()
end

local ports = DissectorTable.get("udp.port")
local registered_port = 65053
ports:add(registered_port, shim)

function shim.prefs_changed()
    if shim.prefs.udp_port ~= registered_port then
        ports:remove(registered_port, shim)
        registered_port = shim.prefs.udp_port
        ports:add(registered_port, shim)
    end
end

-- The TCP option. The built-in TCP dissector has already parsed the option list, so a postdissector parses it again.
local option = Proto("poseidon_tcp", "Poseidon TCP option")
local tcp_options = Field.new("tcp.options")

function option.dissector(_, _, root)
    local field_info = tcp_options()
    if not field_info then
        return
    end
    local list = field_info.range
    local offset = 0
    while offset < list:len() do
        local kind = list(offset, 1):uint()
        local len = 1
        if kind == 0 then
            return
        elseif kind ~= 1 then
            if offset + 2 > list:len() then
                return
            end
            len = list(offset + 1, 1):uint()
            if len < 2 or offset + len > list:len() then
                return
            end
        end
        if kind == shim.prefs.kind and len == 8 and list(offset + 2, 2):uint() == shim.prefs.exid then
            local tree = root:add(option, list(offset, 8))
            add_delay(tree, f.t_code, f.t_delay, list(offset + 4, 2), 0xffff)
            if list(offset + 6, 2):uint() ~= NO_ECHO then
                add_delay(tree, f.t_echo, f.t_echo_delay, list(offset + 6, 2), NO_ECHO - 1)
            end
            return
        end
        offset = offset + len
    end
end

register_postdissector(option)

-- HPCC's header: five hop words and the number of hops, little-endian. Our captures put it before the TCP payload. A
-- postdissector also decodes retransmissions, which TCP does not pass to subdissectors.
local hpcc = Proto("poseidon_hpcc", "HPCC hop records")
local tcp_payload, tcp_source, tcp_destination = Field.new("tcp.payload"), Field.new("tcp.srcport"), Field.new("tcp.dstport")
local HPCC_SLOTS, HPCC_BYTES = 5, 42

-- Returns `length` bits of a word from bit `first` on.
local function bits(word, first, length)
    return word:rshift(first):band(UInt64(2 ^ length - 1)):tonumber()
end

function hpcc.dissector(_, _, root)
    local payload, source, destination = tcp_payload(), tcp_source(), tcp_destination()
    if not payload or (source.value ~= shim.prefs.hpcc_port and destination.value ~= shim.prefs.hpcc_port) then
        return
    end
    local range = payload.range
    if range:len() < HPCC_BYTES then
        return
    end
    -- Without a hop, the bytes are payload, or no switch has written a record yet.
    local hops = range(HPCC_SLOTS * 8, 2):le_uint()
    if hops == 0 or hops > HPCC_SLOTS then
        return
    end
    local tree = root:add(hpcc, range(0, HPCC_BYTES))
    tree:add_le(f.h_count, range(HPCC_SLOTS * 8, 2))
    for hop = 0, hops - 1 do
        local slot = range(hop * 8, 8)
        local word = slot:le_uint64()
        local record = tree:add(slot, "Hop " .. (hop + 1))
        record:add(f.h_rate, slot, bits(word, 0, 3))
        record:add(f.h_time, slot, bits(word, 3, 24))
        record:add(f.h_sent, slot, bits(word, 27, 20) * 128)
        record:add(f.h_queue, slot, bits(word, 47, 17) * 80)
    end
end

register_postdissector(hpcc)

-- The payload of our captures is zero. Without this line, Wireshark guesses a protocol for it.
DissectorTable.get("tcp.port"):add(65053, Dissector.get("data"))
