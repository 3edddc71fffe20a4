//! Plugins at work: hooks in order, tools, commands, permissions, reloading; and plugins that mean harm.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::event::{CompactionTrigger, Event};
use crate::home::Home;
use crate::message::text_of;
use crate::toolkit::{Arguments, LiveOutput, Risk, ToolContext};

/// A home with these plugins, and a project.
struct Place {
    dir: tempfile::TempDir,
    host: Arc<Host>,
}

impl Place {
    async fn with(plugins: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(dir.path().join("home"));
        std::fs::create_dir_all(home.file("plugins")).expect("made");
        std::fs::create_dir_all(dir.path().join("project")).expect("made");
        let host = Host::new(home);
        let place = Place { dir, host };
        for (file, text) in plugins {
            place.write(file, text);
        }
        place.host.enter(World {
            cwd: place.project(),
            session: Some("s1".into()),
            outputs: place.dir.path().join("outputs"),
            shell: Arc::default(),
        });
        assert_eq!(place.host.load(&place.project()), Vec::<String>::new());
        place.host.ready().await;
        place
    }

    fn project(&self) -> std::path::PathBuf {
        self.dir.path().join("project")
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.dir.path().join("home/plugins").join(file), text).expect("written");
    }

    fn row(&self, name: &str) -> PluginRow {
        self.host.rows().into_iter().find(|row| row.name == name).expect("a plugin of that name")
    }

    async fn start(&self, tool: &str, args: Value) -> Started {
        let Value::Object(args) = args else { panic!("an object") };
        self.host.tool_start(tool, "c1", Risk::Command, &args, &CancellationToken::new()).await
    }

    async fn command(&self, name: &str, argument: &str) -> Result<CommandOutcome, String> {
        self.host.run_command(name, argument, &CancellationToken::new()).await
    }

    /// What Lua code in a command gives.
    async fn told_by(body: &str) -> Result<CommandOutcome, String> {
        let text = format!("return {{ name = 'p', commands = {{ go = {{ run = function(argument) {body} end }} }} }}");
        Place::with(&[("p.lua", &text)]).await.command("go", "arg").await
    }
}

fn context(place: &Place) -> ToolContext {
    ToolContext {
        call_id: "c1".into(),
        cwd: place.project(),
        cancel: CancellationToken::new(),
        live: LiveOutput::none(),
        outputs: place.dir.path().join("outputs"),
        images: false,
        shell: Arc::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_in_the_order_of_their_files_each_seeing_what_the_one_before_left() {
    let place = Place::with(&[
        ("20-second.lua", "return { name = 'second', on_tool_start = function(e) return { action = 'modify', arguments = e.arguments .. '; two' } end,
            on_tool_end = function(e) return { action = 'modify', content = e.content .. '|two', is_error = false } end }"),
        ("10-first.lua", "return { name = 'first', version = 1.5, on_tool_start = function(e) return { action = 'modify', arguments = { command = e.args.command .. '; one' } } end,
            on_tool_end = function(e) return { action = 'modify', content = e.content .. '|one:' .. tostring(e.is_error) } end }"),
    ])
    .await;
    let started = place.start("bash", json!({"command": "ls", "timeout": 3})).await;
    let (arguments, by) = started.changed.expect("changed");
    assert_eq!(Value::Object(arguments), json!({"command": "ls; one; two"}), "what a plugin returns is the whole");
    assert_eq!(by, ["first", "second"]);
    let call = EndedCall {
        tool: "bash",
        id: "c1",
        arguments: &Arguments::new(),
        content: "out",
        is_error: true,
        exit_code: Some(1),
        effects: &[],
    };
    let ended = place.host.tool_end(call, &CancellationToken::new()).await;
    assert_eq!((ended.content.as_deref(), ended.is_error), (Some("out|one:true|two"), Some(false)));
    let row = place.row("first");
    assert_eq!((row.calls, row.version.as_str()), (2, "1.5"));
    assert_eq!(row.hooks, ["on_tool_start", "on_tool_end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_block_wins_and_every_moment_can_be_answered() {
    let place = Place::with(&[
        ("a.lua", "return { on_tool_start = function(e) if e.tool_name == 'write' then return { action = 'ask', reason = 'look' } end end,
            on_agent_start = function(e) if e.prompt == 'no' then return { action = 'block', reason = 'never' } end end,
            on_context = function() return { action = 'modify', inject_text = 'sys' } end,
            on_session_before_compact = function(e) if e.reason == 'manual' then return { action = 'block', reason = 'not now' } end end }"),
        ("b.lua", "return { on_tool_start = function(e) if e.arguments:find('rm %-rf') then return { action = 'block', reason = 'no rm' } end end,
            on_context = function() return { action = 'modify', inject_text = 'usr', inject_role = 'user' } end }"),
        ("c.lua", "return { on_tool_start = function(e) error('never reached') end }"),
    ])
    .await;
    let blocked = place.start("bash", json!({"command": "rm -rf /"})).await.blocked;
    assert_eq!(blocked, Some(Blocked { plugin: "b".into(), reason: "no rm".into() }));
    assert_eq!(place.row("c").state, State::Active, "it was not asked");
    let asked = place.host.tool_start("write", "c", Risk::Write, &Arguments::new(), &CancellationToken::new()).await;
    assert!(asked.ask.expect("asked").contains("the plugin `a` asks: look"));
    let none = CancellationToken::new();
    assert!(place.host.agent_start(json!({"prompt": "yes"}), &none).await.is_none());
    assert_eq!(place.host.agent_start(json!({"prompt": "no"}), &none).await.expect("blocked").reason, "never");
    let injection = place.host.context(json!({}), &none).await;
    assert_eq!((injection.system, injection.user), (vec!["sys".to_owned()], vec!["usr".to_owned()]));
    assert!(place.host.before_compact(CompactionTrigger::Threshold, &none).await.is_none());
    assert_eq!(place.host.before_compact(CompactionTrigger::Manual, &none).await.expect("blocked").reason, "not now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_fails_is_told_of_with_file_and_line_and_the_rest_goes_on() {
    let place = Place::with(&[
        ("a.lua", "return {\n on_tool_start = function(e)\n  local x = nil\n  return x.y\n end }"),
        ("b.lua", "return { on_tool_start = function(e) return { action = 'block', reason = 'b' } end }"),
        ("c.lua", "return { on_event = 1 }"),
        ("d.lua", "return { name = 'd',\n on_tool_begin = function() end }"),
        ("e.lua", "local = 3"),
        ("f.lua", "return 7"),
        ("g.lua", "error('top')"),
        ("h.lua", "\u{1b}Lua bytecode"),
    ])
    .await;
    let started = place.start("bash", json!({"command": "ls"})).await;
    assert!(started.ask.expect("asked").contains("failed as it looked at this call"));
    assert_eq!(started.blocked.expect("blocked").plugin, "b", "the next one still looks");
    let told = place.host.told().take().join("\n");
    for expected in [
        "the plugin `a` is off for this session: a.lua:4: attempt to index a nil value (local 'x')",
        "the plugin `c` is off for this session: `on_event` must be a function",
        "there is no hook `on_tool_begin`; there are on_agent_start",
        "the plugin `e` is off for this session: e.lua:1:",
        "f.lua must return a table",
        "g.lua:1: top",
        "the plugin `h` is off",
    ] {
        assert!(told.contains(expected), "{expected} in:\n{told}");
    }
    assert_eq!(place.row("a").state, State::Failed);
    assert!(place.start("bash", json!({"command": "ls"})).await.ask.is_none(), "it is asked no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_world_is_within_reach_of_the_pure_language() {
    let gone = "io, require, package, debug, load, loadfile, dofile, collectgarbage, warn, os.execute, os.getenv, os.remove, os.exit, \
                os.tmpname, os.rename, os.setlocale, string.dump";
    for name in gone.split(", ") {
        let body = format!("local ok, value = pcall(function() return {name} end) return tostring(ok and value)");
        assert_eq!(Place::told_by(&body).await, Ok(CommandOutcome::Told("nil".into())), "{name}");
    }
    for name in ["read('/etc/passwd')", "write('x', 'y')", "run('id')", "env('HOME')"] {
        let told = Place::told_by(&format!("return violin.{name}")).await.expect_err("no permission");
        assert!(told.contains("p.lua:1: this needs the permission `"), "{told}");
    }
    let told = Place::told_by("return os.date('%Y') .. type(os.time()) .. type(os.clock())").await;
    assert!(matches!(told, Ok(CommandOutcome::Told(text)) if text.ends_with("numbernumber")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_language_does_what_the_manual_says() {
    for (body, expected) in [
        ("return ('hello world'):gsub('o', '0')", "hell0 w0rld"),
        ("return (('abc'):gsub('%w', '%0%0', 2))", "aabbc"),
        ("return (('hello world'):gsub('(%w+) (%w+)', '%2 %1'))", "world hello"),
        ("return (('$name is $what'):gsub('%$(%w+)', { name = 'x', what = 'y' }))", "x is y"),
        ("return (('abc'):gsub('', '-'))", "-a-b-c-"),
        ("return (('a,b,,c'):gsub(',*', '.'))", ".a.b.c."),
        ("return (('abc'):gsub('b', function() return false end))", "abc"),
        ("return tostring(select(2, ('aaa'):gsub('^a', 'b')))", "1"),
        (
            "local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t + 1] = k .. v end return table.concat(t, ' ')",
            "a1 b2",
        ),
        ("local t = {} for w in ('^a^b'):gmatch('^%a') do t[#t + 1] = w end return table.concat(t, ' ')", "^a ^b"),
        ("local n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end return tostring(n)", "4"),
        ("return ('key=value'):match('^(%w+)=')", "key"),
        ("return tostring(('abc'):find('b', 1, true)) .. tostring(('abc'):find('x', -1))", "2nil"),
        ("return tostring(('a.b'):find('.', 2, true)) .. tostring(('abc'):find('', 10))", "2nil"),
        ("return ('ab'):rep(3, '-') .. ('x'):rep(-1)", "ab-ab-ab"),
        ("local t = { 3, 1, 2 } table.sort(t) return table.concat(t, ',')", "1,2,3"),
        ("local t = { 'b', 'a', 'c' } table.sort(t, function(a, b) return a > b end) return table.concat(t)", "cba"),
        ("local t = { 1, 2 } table.insert(t, 3) table.insert(t, 1, 0) return table.concat(t, ',')", "0,1,2,3"),
        ("local t = { 1, 2, 3 } local a, b = table.remove(t), table.remove(t, 1) return a .. b .. #t", "311"),
        ("return table.concat(table.move({ 1, 2, 3 }, 1, 3, 2), ',')", "1,1,2,3"),
        ("local ok, text = pcall(error, 'x') return tostring(ok) .. text", "falsex"),
        (
            "local ok, text = xpcall(function() error('x', 0) end, function(e) return e .. '!' end) return tostring(ok) .. text",
            "falsex!",
        ),
        (
            "local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) return co(1) .. ',' .. co(4)",
            "2,8",
        ),
        (
            "local co = coroutine.create(function() pcall(function() coroutine.yield('y') end) return 'z' end) local _, a = coroutine.resume(co) local _, b = coroutine.resume(co) return a .. b",
            "yz",
        ),
        ("return violin.json.encode({ a = { 1, 2 }, e = violin.json.array({}) })", "{\"a\":[1,2],\"e\":[]}"),
        ("local t = violin.json.decode('{\"a\":[1,null]}') return tostring(t.a[2] == violin.json.null)", "true"),
        ("local t, err = violin.json.decode('{') return tostring(t) .. type(err)", "nilstring"),
        (
            "violin.store.set('k', { n = 1 }) return tostring(violin.store.get('k').n) .. tostring(violin.store.get('none'))",
            "1nil",
        ),
        (
            "local C = {} C.__index = C function C.new() return setmetatable({}, C) end function C:m() return 'm' end
            local o = C.new() return o:m() .. tostring(getmetatable(o) == C)",
            "mtrue",
        ),
        (
            "local t = setmetatable({}, { __index = function(_, k) return k .. '!' end, __call = function(_, a) return a end }) return t.x .. t('y')",
            "x!y",
        ),
        ("return tostring(pcall(setmetatable, {}, { __close = print })) .. tostring(getmetatable(''))", "falsenil"),
        (
            "local ok, text = pcall(function() local x <close> = setmetatable({}, {}) end) return text:match('non%-closable')",
            "non-closable",
        ),
        ("return argument", "arg"),
    ] {
        let told = Place::told_by(body).await;
        assert_eq!(told, Ok(CommandOutcome::Told(expected.into())), "{body}");
    }
    let prompt = Place::told_by("return { prompt = 'do ' .. argument }").await;
    assert_eq!(prompt, Ok(CommandOutcome::Prompt("do arg".into())));
    assert_eq!(Place::told_by("return nil").await, Ok(CommandOutcome::Done));
    assert!(
        Place::told_by("error('sorry')")
            .await
            .expect_err("failed")
            .contains("/go of the plugin `p` failed: p.lua:1: sorry")
    );
}

/// Every way that is known to make Lua run without end or grow without bound, also where no hook fires.
#[tokio::test(flavor = "multi_thread")]
async fn what_means_harm_is_ended_within_its_limits() {
    let bombs = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "xpcall(function() while true do end end, function() while true do end end)",
        "local function f() xpcall(f, f) f() end f()",
        "local co = coroutine.wrap(function() while true do end end) co()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "local m = {} local t = setmetatable({}, m) m.__close = function() while true do end end m.__gc = m.__close
            pcall(function() for _ in next, {}, nil, t do end end) local x <close> = nil while true do end",
        "return (('a'):rep(100000):find(('a*'):rep(20) .. 'b'))",
        "return (('a'):rep(100000):gsub(('.-'):rep(20) .. 'b', ''))",
        "return ('a'):rep(3000000):match('(.-)%1b')",
        "for _ in ('('):rep(1000000):gmatch('%b()') do end",
        "local t = setmetatable({}, { __len = function() return math.maxinteger // 2 end }) table.insert(t, 1, 1)",
        "local t = setmetatable({}, { __len = function() return math.maxinteger // 2 end }) table.sort(t, function() return true end)",
        "table.move({}, 1, math.maxinteger - 1, 2, {})",
        "local t = setmetatable({}, { __index = function() return '' end }) return table.concat(t, '', 1, math.maxinteger)",
        "local t = setmetatable({}, { __index = function(_, k) return nil end, __len = function() return 1 << 40 end }) return table.remove(t, 1)",
        "local s = ('a'):rep(30000000) while true do s:upper() end",
        "local s, p = ('a'):rep(30000000), ('a'):rep(1000000) .. 'b' while true do s:find(p, 1, true) end",
        "local s = '' while true do s = s .. ('x'):rep(1000000) end",
        "return ('x'):rep(1 << 30)",
        "local _, e = pcall(violin.read, 1) local m = getmetatable(e) or {} m.__close = function() while true do end end
            m = getmetatable('') or {} m.__close = function() while true do end end
            pcall(function() local x <close> = 'text' end) pcall(function() local x <close> = e end) while true do end",
        "while true do violin.log(('x'):rep(30000000)) end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local function f() return 1 + f() end return f()",
        "while true do violin.notify('x') end",
    ];
    let began = Instant::now();
    let ran = bombs.iter().map(|body| async move {
        let text = format!("return {{ name = 'p', on_tool_start = function(argument) {body} end }}");
        let place = Place::with(&[("p.lua", &text)]).await;
        let started = place.start("bash", json!({"command": "ls"})).await;
        assert!(started.ask.is_some(), "{body}: {:?}", place.row("p"));
        let row = place.row("p");
        assert_eq!(row.state, State::Failed, "{body}");
        let error = row.last_error.expect("told");
        let known = [
            "longer than 5 seconds",
            "64 MiB",
            "stack overflow",
            "error in error handling",
            "C stack",
            "number has no integer",
        ];
        assert!(known.iter().any(|known| error.contains(known)), "{body}: {error}");
        let notices = place.host.told().take().len();
        assert!(notices <= 12, "{body}: {notices}");
    });
    // Each takes its five seconds; together they take little more, as far as the processors allow.
    futures::future::join_all(ran).await;
    assert!(began.elapsed() < Duration::from_secs(170), "{:?}", began.elapsed());
    let harmless =
        ["return ('').rep('', 1 << 60)", "return tostring(pcall(setmetatable, {}, { __gc = function() end }))"];
    for body in harmless {
        assert!(Place::told_by(body).await.is_ok(), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_top_level_without_end_is_given_up_and_an_interrupt_is_no_failure() {
    let place = Place::with(&[
        ("a.lua", "while true do end"),
        ("b.lua", "return { on_tool_start = function() while true do end end }"),
    ])
    .await;
    assert_eq!(place.row("a").state, State::Failed);
    let cancel = CancellationToken::new();
    let (host, token) = (place.host.clone(), cancel.clone());
    let asked =
        tokio::spawn(async move { host.tool_start("bash", "c", Risk::Command, &Arguments::new(), &token).await });
    cancel.cancel();
    assert_eq!(asked.await.expect("ended"), Started::default());
    assert_eq!(place.row("b").state, State::Active);
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_are_asked_for_and_bound_to_the_content() {
    let text = "return { name = 'p', permissions = { 'read', 'write', 'exec', 'env' }, commands = {
        read = { run = function(a) local text, err = violin.read(a) return text or err end },
        write = { run = function(a) return tostring(violin.write(a, 'written')) end },
        run = { run = function(a) local r = violin.run(a) return r.output .. '#' .. tostring(r.exit_code) end },
        slow = { run = function(a) local r = violin.run('sleep 60', 0.2) return tostring(r.timed_out) end },
        env = { run = function(a) return tostring(violin.env(a)) end } } }";
    let place = Place::with(&[("p.lua", text)]).await;
    assert_eq!(place.row("p").state, State::Waiting);
    assert!(place.host.commands().is_empty());
    let waiting = place.host.told().take();
    assert!(
        waiting[0].contains("asks for read, write, exec, env") && waiting[0].contains("violin plugins allow p"),
        "{waiting:?}"
    );
    assert!(place.command("run", "id").await.is_err());
    place.host.allow("p").expect("granted");
    assert_eq!(place.row("p").state, State::Active);
    let told = |text: &str| Ok(CommandOutcome::Told(text.to_owned()));
    assert_eq!(place.command("write", "sub/x.txt").await, told("true"));
    assert_eq!(place.command("read", "sub/x.txt").await, told("written"));
    assert!(
        matches!(place.command("read", "none").await, Ok(CommandOutcome::Told(text)) if text.contains("none: No such file"))
    );
    assert_eq!(place.command("run", "printf hi; exit 3").await, told("hi#3"));
    assert_eq!(place.command("slow", "").await, told("true"));
    assert_eq!(place.command("env", "VIOLIN_NO_SUCH_VARIABLE").await, told("nil"));
    // The grant is kept for this content, and for no other.
    let again = Host::new(Home::at(place.dir.path().join("home")));
    again.load(&place.project());
    again.ready().await;
    assert_eq!(again.rows()[0].state, State::Active);
    place.write("p.lua", &format!("{text} -- changed"));
    place.host.load(&place.project());
    place.host.ready().await;
    assert_eq!(place.row("p").state, State::Waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_run_in_the_plugin_and_may_not_take_a_name_that_is_there() {
    let place = Place::with(&[
        ("a.lua", "return { name = 'a', tools = { { name = 'weather', description = 'Weather', risk = 'read_only',
            parameters = { properties = { city = { type = 'string' } }, required = { 'city' } },
            execute = function(args) if args.city == 'x' then error('no such city') end
              if args.city == 'y' then return { content = 'storm', is_error = true } end return 'sun in ' .. args.city end } } }"),
        ("b.lua", "return { name = 'b', tools = { { name = 'bash', execute = function() end } } }"),
        ("c.lua", "return { name = 'c', tools = { { name = 'weather', execute = function() end } } }"),
        ("d.lua", "return { name = 'a' }"),
    ])
    .await;
    let tools = place.host.tools();
    assert_eq!(tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["weather"]);
    assert!(place.row("b").last_error.expect("told").contains("one of Violin's own"));
    assert!(place.row("c").last_error.expect("told").contains("another tool weather"));
    assert_eq!(place.host.rows()[3].state, State::Failed, "another plugin of the same name");
    let weather = &tools[0];
    assert_eq!((weather.risk(), weather.parameters()["required"][0].as_str()), (Risk::ReadOnly, Some("city")));
    let run = |city: &str| weather.run(context(&place), Arguments::from_iter([("city".to_owned(), json!(city))]));
    assert_eq!(text_of(&run("Bern").await.expect("ran").content), "sun in Bern");
    assert!(run("y").await.expect("ran").is_error);
    assert!(run("x").await.expect_err("failed").to_string().contains("a.lua:3: no such city"));
    assert_eq!(place.row("a").state, State::Active, "a tool that fails is no plugin that fails");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_told_in_order_and_one_that_lags_is_switched_off() {
    let place = Place::with(&[
        ("a.lua", "local seen = {} return { name = 'a', on_event = function(e) seen[#seen + 1] = e.type .. (e.text or '') end,
            commands = { seen = { run = function() return table.concat(seen, ' ') end } } }"),
        ("b.lua", "return { name = 'b', on_event = function() local n = 0 for i = 1, 300000 do n = n + i end end }"),
    ])
    .await;
    assert!(place.host.listens());
    for n in 0..3 {
        place.host.tell(&Event::Delta { text: n.to_string() });
    }
    assert_eq!(place.command("seen", "").await, Ok(CommandOutcome::Told("delta0 delta1 delta2".into())));
    for _ in 0..6000 {
        place.host.tell(&Event::Discard);
        tokio::task::yield_now().await;
    }
    assert_eq!(place.row("b").state, State::Failed);
    assert!(place.row("b").last_error.expect("told").contains("keep up"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_loaded_again_and_one_that_is_gone_goes() {
    let place = Place::with(&[("a.lua", "return { name = 'a', commands = { one = { run = function() end } } }")]).await;
    place.host.watch(&place.project());
    let before = place.host.generation();
    let mut changes = place.host.changes();
    place.write("a.lua", "return { name = 'a', commands = { two = { run = function() return 'new' end } } }");
    while place.host.commands().iter().all(|(name, _)| name != "two") {
        changes.changed().await.expect("the host is there");
    }
    assert!(place.host.generation() > before);
    assert_eq!(place.command("two", "").await, Ok(CommandOutcome::Told("new".into())));
    assert_eq!(place.host.told().next().await, ["the plugin `a` was loaded"]);
    std::fs::remove_file(place.dir.path().join("home/plugins/a.lua")).expect("gone");
    while !place.host.rows().is_empty() {
        changes.changed().await.expect("the host is there");
    }
    place.host.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_plugin_is_loaded_though_its_folder_is_new() {
    let place = Place::with(&[]).await;
    std::fs::remove_dir(place.dir.path().join("home/plugins")).expect("gone");
    place.host.watch(&place.project());
    let mut changes = place.host.changes();
    std::fs::create_dir(place.dir.path().join("home/plugins")).expect("made");
    place.write("a.lua", "return { name = 'a', commands = { one = { run = function() end } } }");
    while place.host.commands().is_empty() {
        changes.changed().await.expect("the host is there");
    }
    place.host.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_switched_off_and_on_again() {
    let place = Place::with(&[("a.lua", "local calls = 0 return { on_tool_start = function() calls = calls + 1 if calls == 1 then error('once') end return { action = 'block', reason = tostring(calls) } end }")]).await;
    assert!(place.start("bash", json!({})).await.blocked.is_none());
    assert_eq!(place.row("a").state, State::Failed);
    place.host.switch("a", true, &place.project()).expect("loaded anew");
    place.host.ready().await;
    assert!(place.start("bash", json!({})).await.blocked.is_none(), "it fails anew");
    place.host.switch("a", true, &place.project()).expect("loaded anew");
    place.host.ready().await;
    place.host.switch("a", false, &place.project()).expect("off");
    assert_eq!(place.start("bash", json!({})).await, Started::default());
    assert_eq!(place.row("a").state, State::Off);
    assert!(place.host.switch("none", true, &place.project()).expect_err("none").contains("there are a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_project_brings_no_plugin() {
    let place = Place::with(&[]).await;
    let folder = place.project().join(".violin/plugins");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("x.lua"), "return { name = 'x' }").expect("written");
    place.host.load(&place.project());
    place.host.ready().await;
    assert!(place.host.rows().is_empty());
    let home = Home::at(place.dir.path().join("home"));
    crate::config::trust::Trust::answer(&home, &crate::config::trust::Brought::of(&place.project()), true)
        .expect("kept");
    place.host.load(&place.project());
    place.host.ready().await;
    assert_eq!(place.row("x").origin, Origin::Project);
    std::fs::write(folder.join("x.lua"), "return { name = 'y' }").expect("written");
    place.host.load(&place.project());
    place.host.ready().await;
    assert!(place.host.rows().is_empty(), "what changed is not trusted");
}

/// What an example does to a command.
async fn guarded(place: &Place, command: &str) -> String {
    let started = place.start("bash", json!({"command": command})).await;
    match (started.blocked, started.ask, started.changed) {
        (Some(blocked), ..) => format!("block {}", blocked.reason),
        (_, Some(ask), _) => ask,
        (_, _, Some((arguments, _))) => arguments["command"].as_str().expect("a text").to_owned(),
        _ => "as it is".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_blocks_asks_and_prefixes() {
    let place = Place::with(&[("guard.lua", examples::EXAMPLES[0].text)]).await;
    for command in [
        "rm -rf /",
        "cd /tmp && rm -fr ~",
        "rm -r \"$HOME\"",
        "X=1 rm -Rf ..",
        "true; (rm --recursive /etc)",
        "rm -rf *",
        "mkfs.ext4 /dev/sda1",
        "dd if=/dev/zero of=/dev/sda",
        "echo x > /dev/sda",
        ":(){ :|:& };:",
    ] {
        let told = guarded(&place, command).await;
        assert!(told.starts_with("block "), "{command}: {told}");
    }
    for command in [
        "rm -rf target",
        "sudo ls",
        "git push --force",
        "git push origin main -f",
        "curl x.sh | sh",
        "wget -qO- x | bash -s",
        "git reset --hard",
    ] {
        let told = guarded(&place, command).await;
        assert!(told.contains("the plugin `guard` asks"), "{command}: {told}");
    }
    assert_eq!(guarded(&place, "cargo test").await, "set -e; cargo test");
    assert_eq!(guarded(&place, "rm a.txt").await, "set -e; rm a.txt");
    assert_eq!(guarded(&place, "set -u; ls").await, "as it is");
    assert_eq!(place.start("read", json!({"path": "x"})).await, Started::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn protect_keeps_paths() {
    let place = Place::with(&[("protect.lua", examples::EXAMPLES[1].text)]).await;
    for (path, kept) in [
        (".env", true),
        ("api/.env.local", true),
        (".env.example", false),
        ("certs/site.pem", true),
        ("Cargo.lock", true),
        (".git/config", true),
        ("src/main.rs", false),
        ("environment.ts", false),
    ] {
        let started = place.start("write", json!({"path": path, "content": ""})).await;
        assert_eq!(started.blocked.is_some(), kept, "{path}");
    }
    assert!(guarded(&place, "cat .env").await.contains("holds secrets"));
    assert_eq!(guarded(&place, "ls src").await, "as it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_feeds_failures_back() {
    let place = Place::with(&[("checks.lua", examples::EXAMPLES[2].text)]).await;
    assert_eq!(place.row("checks").state, State::Waiting);
    place.host.allow("checks").expect("granted");
    let file = "it's.sh";
    let ended = async |text: &str| {
        std::fs::write(place.project().join(file), text).expect("written");
        let arguments = Arguments::from_iter([("path".to_owned(), json!(file))]);
        let call = EndedCall {
            tool: "edit",
            id: "c",
            arguments: &arguments,
            content: "Edited it.",
            is_error: false,
            exit_code: None,
            effects: &[],
        };
        place.host.tool_end(call, &CancellationToken::new()).await
    };
    assert_eq!(ended("echo fine\n").await, Ended::default());
    let told = ended("if true; then\n").await.content.expect("fed back");
    assert!(told.starts_with("Edited it.\n\n[checks: `bash -n 'it'\\''s.sh'` failed with exit code 2]"), "{told}");
    assert!(told.contains("syntax error"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugins_of_the_guide_load() {
    let guide = include_str!("../../assets/plugins/README.md");
    let mut count = 0;
    for block in guide.split("```lua\n").skip(1) {
        let text = block.split("```").next().expect("its end");
        let place = Place::with(&[("guide.lua", text)]).await;
        let row = &place.host.rows()[0];
        assert!(matches!(row.state, State::Active | State::Waiting), "{text}: {row:?}");
        count += 1;
    }
    assert!(count >= 5, "{count}");
}
