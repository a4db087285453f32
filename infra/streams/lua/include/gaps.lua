-- Which numbers of a stream have no entry any more. Numbers are gapless in each incarnation, so that a gap is exactly what is gone.
-- A set of numbers is a list of ranges {first, last} in their order. A *life* is one incarnation of the stream: {of = incarnation,
-- given = the last number given, gone = those without an entry}; lives are listed in their order. Needs `nearest`.

-- In one pass through both: there may be as many gaps as somebody has deleted entries, and the server does nothing else meanwhile.
local function without(ranges, others)
    local left, at = {}, 1
    for _, range in ipairs(ranges) do
        local first = range[1]
        while others[at] and others[at][2] < first do
            at = at + 1
        end
        while others[at] and others[at][1] <= range[2] do
            if others[at][1] > first then
                left[#left + 1] = {first, others[at][1] - 1}
            end
            first = others[at][2] + 1
            if first > range[2] then
                break  -- it may reach into the next range
            end
            at = at + 1
        end
        if first <= range[2] then
            left[#left + 1] = {first, range[2]}
        end
    end
    return left
end

local function all_up_to(number)
    return number > 0 and {{1, number}} or {}
end

local function is_all_gone(life)
    return #without(all_up_to(life.given), life.gone) == 0
end

local function index_of(lives, incarnation)
    for i, life in ipairs(lives) do
        if life.of == incarnation then
            return i
        end
    end
end

-- Whether the stream begins where the lives say that it does; `first` is what `nearest` has found. After a thousand foreign entries
-- it is not known with what the stream begins, and nothing is said against it.
local function begins_as_known(first, lives)
    if #first == 1 then
        return true
    end
    for _, life in ipairs(lives) do
        if life.of == first[2] then
            local lead = life.gone[1] and life.gone[1][1] == 1 and life.gone[1][2] or 0
            return tonumber(first[3]) == lead + 1
        elseif not is_all_gone(life) then
            return false
        end
    end
    return #first == 0
end

-- Everything before the first entry is gone, and known to be.
local function begin_at(first, lives)
    for _, life in ipairs(#first == 1 and {} or lives) do
        local lead = life.of == first[2] and tonumber(first[3]) - 1 or life.given
        local rest = without(life.gone, all_up_to(lead))
        life.gone = all_up_to(lead)
        for _, range in ipairs(rest) do
            life.gone[#life.gone + 1] = range
        end
        if life.of == first[2] then
            return
        end
    end
end

local function see(walk, incarnation, number)
    local last = walk.lives[#walk.lives]
    if last and last.of == incarnation then
        if number > last.top + 1 then
            last.gone[#last.gone + 1] = {last.top + 1, number - 1}
        end
        last.top = math.max(last.top, number)
    elseif not index_of(walk.lives, incarnation) then
        walk.lives[#walk.lives + 1] = {of = incarnation, gone = all_up_to(number - 1), top = number}
    end
end

-- Goes on with a walk {from, lives} through the stream; returns whether it has come to the end. Some hundred entries at most: the
-- server does nothing else meanwhile, and 4 MB of them kept everybody waiting for 20 ms.
local function walk_on(stream, walk)
    for _ = 1, 25 do
        local bytes, entries = 0, redis.call('XRANGE', stream, walk.from, '+', 'COUNT', 10)
        for _, entry in ipairs(entries) do
            local incarnation, number = value(entry[2], 'incarnation') or '', value(entry[2], 'sequence') or ''
            if string.match(incarnation, '^%w+$') and string.match(number, '^%d+$') and #number <= 14 then
                see(walk, incarnation, tonumber(number))
            end
            for _, part in ipairs(entry[2]) do
                bytes = bytes + #part
            end
        end
        if #entries < 10 then
            return true
        end
        walk.from, walk.bytes = '(' .. entries[#entries][1], walk.bytes + bytes
        if walk.bytes > 500000 then
            break
        end
    end
    walk.bytes = 0
    return false
end
