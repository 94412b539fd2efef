-- SPDX-License-Identifier: BSD-3-Clause
-- Decodes packets with uroce's own opcodes: extended atomics (nic/mem/extended.md) and operations on elements
-- (nic/mem/elem.md). Also shows the tags of authenticated packets (nic/base/keyed.md). Runs after Wireshark's dissector
-- for InfiniBand, which takes a tag for four bytes of payload and an ICRC:
--   tshark -X lua_script:scripts/uroce.lua -r trace.pcapng

local uroce = Proto("uroce", "uroce atomics and tags")

local NAMES = {
	[0xc0] = "Masked Compare and Swap",
	[0xc1] = "Masked Fetch and Add",
	[0xc2] = "Extended Atomic Acknowledge",
	[0xc4] = "Elements",
	[0xc5] = "Fetch Elements",
	[0xc6] = "Elements Acknowledge",
}
local OPS = {
	[0] = "MIN", "MAX", "SUM", "PROD", "LOR", "LAND", "BOR", "BAND", "LXOR", "BXOR", "ATOMIC_READ",
	"ATOMIC_WRITE", "CSWAP", "CSWAP_NE", "CSWAP_LE", "CSWAP_LT", "CSWAP_GE", "CSWAP_GT", "MSWAP", "DIFF",
}
local DATATYPES = {
	[0] = "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FLOAT", "DOUBLE",
	"FLOAT_COMPLEX", "DOUBLE_COMPLEX", "LONG_DOUBLE", "LONG_DOUBLE_COMPLEX", "INT128", "UINT128", "FLOAT16",
	"BFLOAT16", "FLOAT8_E4M3", "FLOAT8_E5M2", [0x8c] = "LONG_DOUBLE (binary128)",
	[0x8d] = "LONG_DOUBLE_COMPLEX (binary128)",
}
local SIZES = {[0] = 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 32, 16, 16, 2, 2, 1, 1, [0x8c] = 16, [0x8d] = 32}
local ATOMIC_READ, CSWAP, MSWAP = 10, 12, 18
local OPERANDS = {
	[0xc0] = {"swap", "compare", "swap_mask", "compare_mask"},
	[0xc1] = {"add", "boundary"},
}
local BTH, AETH, EXT_ATOMIC_ETH, ELEMENT_ETH, ADDRESS = 12, 4, 16, 20, 8
local ICRC, TAG = 4, 8
local KEYED = 15 -- transport header version of packets with a tag
local RUN = 1 -- flag: several requests, on one element each

local fields = {
	opcode = ProtoField.uint8("uroce.opcode", "Operation", base.HEX, NAMES),
	va = ProtoField.uint64("uroce.va", "Virtual address", base.HEX),
	rkey = ProtoField.uint32("uroce.rkey", "R_Key", base.HEX),
	log_size = ProtoField.uint8("uroce.log_size", "log2 of the size in bytes"),
	swap = ProtoField.bytes("uroce.swap", "Swap"),
	compare = ProtoField.bytes("uroce.compare", "Compare"),
	swap_mask = ProtoField.bytes("uroce.swap_mask", "Swap mask"),
	compare_mask = ProtoField.bytes("uroce.compare_mask", "Compare mask"),
	add = ProtoField.bytes("uroce.add", "Add"),
	boundary = ProtoField.bytes("uroce.boundary", "Field boundaries"),
	syndrome = ProtoField.uint8("uroce.syndrome", "Syndrome", base.HEX),
	msn = ProtoField.uint24("uroce.msn", "Message sequence number"),
	original = ProtoField.bytes("uroce.original", "Value before"),
	op = ProtoField.uint8("uroce.op", "Operation", base.DEC, OPS),
	datatype = ProtoField.uint8("uroce.datatype", "Datatype", base.DEC, DATATYPES),
	flags = ProtoField.uint8("uroce.flags", "Flags", base.HEX),
	count = ProtoField.uint32("uroce.count", "Number of elements"),
	target = ProtoField.uint64("uroce.target", "Address of an element", base.HEX),
	operands = ProtoField.bytes("uroce.operands", "Operands"),
	compares = ProtoField.bytes("uroce.compares", "Compare values"),
	tag = ProtoField.bytes("uroce.tag", "Authentication tag"),
}
uroce.fields = fields

local malformed = ProtoExpert.new("uroce.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
uroce.experts = {malformed}

local bth_opcode = Field.new("infiniband.bth.opcode")
local bth_pad = Field.new("infiniband.bth.padcnt")
local bth_version = Field.new("infiniband.bth.tver")
local udp_length = Field.new("udp.length")

local function request(tvb, tree, opcode)
	if tvb:len() < EXT_ATOMIC_ETH then
		return false
	end
	local log_size = tvb(12, 1):uint()
	tree:add(fields.va, tvb(0, 8))
	tree:add(fields.rkey, tvb(8, 4))
	tree:add(fields.log_size, tvb(12, 1))
	if log_size < 2 or log_size > 5 then
		return false
	end
	local size, names = 2 ^ log_size, OPERANDS[opcode]
	if tvb:len() ~= EXT_ATOMIC_ETH + #names * size then
		return false
	end
	for i, name in ipairs(names) do
		tree:add(fields[name], tvb(EXT_ATOMIC_ETH + (i - 1) * size, size))
	end
	return true
end

local function run(tvb, tree, count, entry)
	if tvb:len() ~= ELEMENT_ETH + count * entry then
		return false
	end
	for i = 0, count - 1 do
		local at = ELEMENT_ETH + i * entry
		tree:add(fields.target, tvb(at, ADDRESS))
		tree:add(fields.operands, tvb(at + ADDRESS, entry - ADDRESS))
	end
	return count > 0
end

local function elements(tvb, tree)
	if tvb:len() < ELEMENT_ETH then
		return false
	end
	local op, datatype, count = tvb(12, 1):uint(), tvb(13, 1):uint(), tvb(16, 4):uint()
	tree:add(fields.va, tvb(0, 8))
	tree:add(fields.rkey, tvb(8, 4))
	tree:add(fields.op, tvb(12, 1))
	tree:add(fields.datatype, tvb(13, 1))
	tree:add(fields.flags, tvb(14, 1))
	tree:add(fields.count, tvb(16, 4))
	if not OPS[op] or not SIZES[datatype] then
		return false
	end
	if tvb(14, 1):uint() == RUN then
		return run(tvb, tree, count, ADDRESS + SIZES[datatype])
	end
	local len = count * SIZES[datatype]
	local compares = op >= CSWAP and op <= MSWAP
	local want = op == ATOMIC_READ and 0 or compares and 2 * len or len
	if tvb:len() ~= ELEMENT_ETH + want then
		return false
	end
	if want > 0 then
		tree:add(fields.operands, tvb(ELEMENT_ETH, len))
	end
	if compares then
		tree:add(fields.compares, tvb(ELEMENT_ETH + len, len))
	end
	return true
end

local function elements_response(tvb, tree)
	if tvb:len() <= AETH then
		return false
	end
	tree:add(fields.syndrome, tvb(0, 1))
	tree:add(fields.msn, tvb(1, 3))
	tree:add(fields.original, tvb(AETH))
	return true
end

local function response(tvb, tree)
	local size = tvb:len() - AETH
	if size ~= 4 and size ~= 8 and size ~= 16 and size ~= 32 then
		return false
	end
	tree:add(fields.syndrome, tvb(0, 1))
	tree:add(fields.msn, tvb(1, 3))
	tree:add(fields.original, tvb(AETH, size))
	return true
end

function uroce.dissector(tvb, pinfo, tree)
	local found, version, length = bth_opcode(), bth_version(), udp_length()
	local keyed = version and version.value == KEYED
	local opcode = found and found.value
	if not opcode or not length or not (keyed or NAMES[opcode]) then
		return
	end
	local start, pad = found.offset + BTH, bth_pad()
	local filled = pad and pad.value or 0
	local len = length.value - 8 - BTH - filled - (keyed and TAG or ICRC)
	if len < 0 or start + len > tvb:len() then
		return -- truncated by the capture
	end
	if keyed and start + len + filled + TAG <= tvb:len() then
		local at = tvb(start + len + filled, TAG)
		tree:add(uroce, at):add(fields.tag, at)
	end
	if not NAMES[opcode] then
		return
	end
	local body = tvb(start, len):tvb()
	local subtree = tree:add(uroce, tvb(start, len))
	subtree:add(fields.opcode, tvb(found.offset, 1))
	local good
	if opcode == 0xc2 then
		good = response(body, subtree)
	elseif opcode == 0xc6 then
		good = elements_response(body, subtree)
	elseif opcode >= 0xc4 then
		good = elements(body, subtree)
	else
		good = request(body, subtree, opcode)
	end
	if not good then
		subtree:add_proto_expert_info(malformed)
	end
	pinfo.cols.info:set("RC " .. NAMES[opcode])
end

register_postdissector(uroce)
